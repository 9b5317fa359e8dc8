package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

// TestQueues reads Volcano's Queues.
func TestQueues(t *testing.T) {
	datadriven.RunTest(t, "testdata/queues.txt", func(_ *testing.T, d *datadriven.TestData) string {
		queues, warnings, ok, err := kubernetes.Queues("queues.yaml", []byte(d.Input))
		if err != nil || !ok {
			return fmt.Sprintf("queues: %v, error: %v\n", ok, err)
		}
		var b strings.Builder
		for _, q := range queues {
			fmt.Fprintf(&b, "%s: parent %q, weight %d, at most %g vCPUs, deserves %g, guaranteed %g\n", q.Name, q.Parent, q.Weight,
				q.MaxVCPU, q.DeservedVCPU, q.GuaranteedVCPU)
			if q.MaxGiB+q.DeservedGiB+q.GuaranteedGiB > 0 {
				fmt.Fprintf(&b, "  at most %g GiB, deserves %g, guaranteed %g\n", q.MaxGiB, q.DeservedGiB, q.GuaranteedGiB)
			}
		}
		for _, w := range warnings {
			fmt.Fprintln(&b, w)
		}
		return b.String()
	})
}

func FuzzQueues(f *testing.F) {
	f.Add([]byte("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {parent: p, capability: {cpu: 2}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		queues, _, _, err := kubernetes.Queues("queues.yaml", data)
		for _, q := range queues {
			if err != nil || jobtext.CheckName(q.Name) != nil || q.Parent != "" && jobtext.CheckName(q.Parent) != nil ||
				!(q.MaxVCPU >= 0 && q.DeservedVCPU >= 0 && q.GuaranteedVCPU >= 0) {
				t.Errorf("%+v, %v", q, err)
			}
		}
	})
}

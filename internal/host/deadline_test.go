package host_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestMovesJobToOnDemandWhenMarketGetsBad runs a shorter version of examples/deadline.yaml. Halfway, spot becomes
// expensive everywhere. The job must continue on demand from its checkpoint and give the reason. Whether it meets its
// deadline depends on the speed of this computer, so the simulator checks that (testdata/stories/moved.txt).
func TestMovesJobToOnDemandWhenMarketGetsBad(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a market")
	}
	h, _ := serve(t, host.Options{
		State: t.TempDir(), TimeScale: 0.0008, Scenario: filepath.Join("..", "..", "examples", "deadline-scenario.yaml"),
	})
	spec, err := read.File(filepath.Join("..", "..", "examples", "deadline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	task := &spec.Tasks[0]
	task.Run = strings.Replace(task.Run, `-lt 100`, `-lt 80`, 1)
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	d := await(t, h.Broker(), job.ID)
	story, err := h.Broker().Views.Explain(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, e := range story.Entries {
		t.Log(e.At.Format("15:04:05"), e.Kind, e.Task, e.Text)
		told[e.Kind] += e.Text + "\n"
	}
	if d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s", d.State, d.Reason)
	}
	first, last := d.Attempts[0], d.Attempts[len(d.Attempts)-1]
	if !first.Offer.Spot || first.Outcome != apitypes.OutcomeMoved || last.Offer.Spot || last.ResumedFrom == "" || last.Resumed <= 0 {
		t.Errorf("the first attempt is %+v, the last %+v", first, last)
	}
	for kind, want := range map[string]string{
		"moved": "on-demand is cheaper to the end", "planned": "replanned: left spot in aws/", "launched": "resuming from a checkpoint",
	} {
		if !strings.Contains(told[kind], want) {
			t.Errorf("%s is told as %q, without %q", kind, told[kind], want)
		}
	}
}

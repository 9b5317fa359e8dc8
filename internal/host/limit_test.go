package host_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestLimitHoldsAcrossQueues: the broker may have one machine. Two jobs of different queues must run one after the
// other, and a job that needs two machines must fail with the reason.
func TestLimitHoldsAcrossQueues(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.01, Limit: config.Limit{Machines: 1}})
	submit := func(name, text string) string {
		spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: "+name+"\nqueue: "+name+"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		j, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	const task = "tasks:\n  a: {run: sleep 0.3, resources: {cpus: 2+}, share: false, time: 1m}\n"
	ids := []string{submit("first", task), submit("second", task)}
	var runs []apitypes.Attempt
	for _, id := range ids {
		d := await(t, h.Broker(), id)
		if d.State != apitypes.JobSucceeded {
			t.Fatalf("%s: %s", d.State, d.Reason)
		}
		runs = append(runs, d.Attempts...)
	}
	if len(runs) != 2 || runs[1].Admitted.Before(runs[0].Ended) && runs[0].Admitted.Before(runs[1].Ended) {
		t.Errorf("%+v", runs)
	}
	d := await(t, h.Broker(), submit("pair", strings.Replace(task, "run:", "nodes: 2, run:", 1)))
	if want := "needs 2 machines and the broker's limit is 1 machine"; d.State != apitypes.JobFailed || !strings.Contains(d.Reason, want) {
		t.Errorf("%s: %q; want %q", d.State, d.Reason, want)
	}
}

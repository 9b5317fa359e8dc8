package broker_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestLateEventOfRemovedJobIsHandled: an event that is delivered again after its job has finished, and after the job's
// definition was removed, needs nothing.
func TestLateEventOfRemovedJobIsHandled(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	job := stored[record.Job](p, "job")
	job.State, job.Finished = apitypes.JobFailed, p.now
	job.Spec = record.Blob{Version: 1, Name: "spec", Token: "removed", Chunks: 1}
	p.put("job", job)
	for _, data := range []events.Data{events.DAGSettled{Job: p.job}, events.TaskSucceeded{Job: p.job}} {
		e := events.New("late"+data.Type(), "test", p.now.Add(time.Minute), data)
		if errs := p.b.Functions.Handle(t.Context(), events.FnAdvance, []events.Event{e}); errs[0] != nil {
			t.Errorf("%s: %v", data.Type(), errs[0])
		}
	}
}

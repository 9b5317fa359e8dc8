package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestAnUpdateIsNotDoneBeforeReplicasBegin: they may be about to begin, by the spec of before.
func TestAnUpdateIsNotDoneBeforeReplicasBegin(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	r := &Rolling{
		Job: record.Job{ID: "j", State: record.JobRunning, Spec: record.Blob{Version: 2},
			Update: record.Update{Spec: 2, Since: now}},
		Spec: &dag.Job{Tasks: []dag.Task{{Name: "web.0", Service: &dag.Service{}}}},
	}
	if !r.Job.Update.Open() {
		t.Fatal("the update is over before it begins")
	}
	if d := r.Step(now); len(d.Writes) > 0 {
		t.Errorf("it writes %+v", d.Writes)
	}
}

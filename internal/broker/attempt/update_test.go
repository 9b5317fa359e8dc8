package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestUpdateIsNotDoneBeforeReplicasStart: an update has just begun, and no replica has started. The update must stay
// open, because replicas may be about to start with the previous spec.
func TestUpdateIsNotDoneBeforeReplicasStart(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	r := &Rolling{
		Job: record.Job{ID: "j", State: apitypes.JobRunning, Spec: record.Blob{Version: 2},
			Update: apitypes.Update{Spec: 2, Since: now}},
		Spec: &dag.Job{Tasks: []dag.Task{{Name: "web.0", Service: &dag.Service{}}}},
	}
	if !r.Job.Update.Open() {
		t.Fatal("the update is done before it starts")
	}
	if d := r.Step(now); len(d.Writes) > 0 {
		t.Errorf("it writes %+v", d.Writes)
	}
}

// TestReplicasAreHandedOverInOrder: the next replica to be updated is the first one with an old version, and only if
// all replicas are ready.
func TestReplicasAreHandedOverInOrder(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	const unready = 0
	for name, c := range map[string]struct {
		runs []int // the version that each replica runs
		next int   // -1: none
		done bool
	}{
		"none yet":          {[]int{1, 1, 1}, 0, false},
		"the first":         {[]int{2, 1, 1}, 1, false},
		"all but the first": {[]int{1, 2, 2}, 0, false},
		"one is not ready":  {[]int{2, unready, 1}, -1, false},
		"nor is the last":   {[]int{1, 2, unready}, -1, false},
		"all":               {[]int{2, 2, 2}, -1, true},
	} {
		r := &Rolling{
			Job: record.Job{ID: "j", State: apitypes.JobRunning, Spec: record.Blob{Version: 2},
				Plan: record.Blob{Version: 4}, Update: apitypes.Update{Spec: 2, Since: now}},
			Spec: &dag.Job{},
		}
		for i, version := range c.runs {
			r.Spec.Tasks = append(r.Spec.Tasks, dag.Task{Name: "web", Service: &dag.Service{Of: "web"}})
			r.tasks = append(r.tasks, record.Task{Job: "j", Index: i, State: record.TaskRunning, Attempt: 1})
			cl := record.Cluster{ID: record.ClusterID("j", i, 1), Task: i, Attempt: 1, State: record.ClusterUp,
				Spec: version}
			if version != unready {
				cl.Ready = now
			}
			r.clusters = append(r.clusters, cl)
		}
		next, done := -1, false
		for _, w := range r.Step(now).Writes {
			switch v := w.Value.(type) {
			case record.Task:
				next = v.Index
			case record.Job:
				done = !v.Update.Open()
			}
		}
		if next != c.next || done != c.done {
			t.Errorf("%s: %d is handed over, done: %v", name, next, done)
		}
	}
}

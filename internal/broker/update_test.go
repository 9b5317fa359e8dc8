package broker

import (
	"reflect"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// A replica of an update became ready while its job waited for a plan, so the next step was skipped. Reconcile takes
// it, once.
func TestSkippedUpdateContinues(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l := txn.NewTransactor(mem.New(), func() time.Time { return now }, config.Default(), txn.Hooks{})
	spec := &dag.Job{Name: "j", Tasks: []dag.Task{
		{Name: "web.0", Run: "x", Nodes: 1, Service: &dag.Service{Of: "web"}},
		{Name: "web.1", Run: "x", Nodes: 1, Service: &dag.Service{Of: "web"}},
	}}
	job := record.Job{
		ID: "j", Name: "j", Queue: "q", State: apitypes.JobWaiting, Tasks: 2, Serves: true,
		Plan:   record.Blob{Version: 3, Name: "plan"},
		Update: apitypes.Update{Spec: 2, Before: 1, Plan: 3, Since: now},
	}
	put := func(t *testing.T, fill func(*txn.Unit, *record.Decision) error) {
		t.Helper()
		err := l.Transact(t.Context(), events.FnSubmit, t.Name()+now.String(), false, func(u *txn.Unit) error {
			var d record.Decision
			if err := fill(u, &d); err != nil {
				return err
			}
			return u.Apply(d)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, func(u *txn.Unit, d *record.Decision) error {
		p, err := txn.Pack(job.ID, "spec", 2, "x", spec)
		if err == nil {
			err = p.Save(t.Context(), l.Store, u)
		}
		job.Spec = p.Blob
		d.PutJob(job)
		for i := range 2 {
			task := record.Task{Job: "j", Index: i, State: record.TaskRunning, Attempt: 1, Plan: 3, Service: "web"}
			d.Put(record.TaskKey("j", i), task)
			id := record.ClusterID("j", i, 1)
			d.Put(record.ClusterKey(id), record.Cluster{ID: id, Job: "j", Task: i, Attempt: 1, Queue: "q", Spec: 2 - i,
				State: record.ClusterUp, Running: now, Ready: now, Nodes: []record.Node{{Address: "10.0.0.1"}}})
		}
		return err
	})
	states := func() (all []record.TaskState) {
		u := l.NewUnit(t.Context(), events.FnReconcile)
		for i := range 2 {
			task, _, err := recordcache.Get[record.Task](u, record.TaskKey("j", i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, task.State)
		}
		return all
	}
	goOn := func() {
		t.Helper()
		now = now.Add(time.Minute)
		if err := Continue(t.Context(), l, now.String(), job); err != nil {
			t.Fatal(err)
		}
	}
	if goOn(); states()[1] != record.TaskRunning {
		t.Error("a step is taken while the job waits")
	}
	put(t, func(_ *txn.Unit, d *record.Decision) error {
		job.State = apitypes.JobRunning
		d.PutJob(job)
		return nil
	})
	for range 2 {
		if goOn(); states()[0] != record.TaskRunning || states()[1] != record.TaskQueued {
			t.Errorf("the replicas are %v, want only the old one to be replaced", states())
		}
	}
}

// The file of an update does not contain what was learned when the job was submitted. Tasks that are not services are
// still planned with it, unless the file now states a run time.
func TestUpdateKeepsLearnedTimesOfOtherTasks(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l := txn.NewTransactor(mem.New(), func() time.Time { return now }, config.Default(), txn.Hooks{})
	file := func(image string, loads time.Duration) *dag.Job {
		return &dag.Job{Name: "j", Tasks: []dag.Task{
			{Name: "web.0", Run: image, Nodes: 1, Service: &dag.Service{Of: "web"}},
			{Name: "index", Run: "x", Nodes: 1},
			{Name: "load", Run: "x", Nodes: 1, Time: dag.TimeEstimate{Default: loads}},
		}}
	}
	learned := func(used bool) *dag.Learned {
		return &dag.Learned{Used: used, On: map[string]dag.Spread{"": {Runs: 3, Hours: 2}}}
	}
	taken := file("v1", 2*time.Hour)
	for i := 1; i <= 2; i++ { // as Fill fills it for a file that states no run time for either
		taken.Tasks[i].Learned = learned(true)
		taken.Tasks[i].Time = dag.TimeEstimate{Default: 2 * time.Hour}
	}
	err := l.Transact(t.Context(), events.FnSubmit, "taken in", false, func(u *txn.Unit) error {
		p, err := txn.Pack("j", "spec", 1, "x", taken)
		if err == nil {
			err = p.Save(t.Context(), l.Store, u)
		}
		var d record.Decision
		if err != nil {
			return err
		}
		d.PutJob(record.Job{
			ID: "j", Name: "j", Queue: "q", State: apitypes.JobRunning, Tasks: 3, Serves: true, Spec: p.Blob,
		})
		return u.Apply(d)
	})
	if err != nil {
		t.Fatal(err)
	}
	update := file("v2", 5*time.Hour)
	job, err := Update(t.Context(), l, Request{Job: "j", Spec: update})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := l.NewUnit(t.Context(), events.FnOptimize).Spec(job)
	if err != nil {
		t.Fatal(err)
	}
	want := file("v2", 5*time.Hour)
	want.Tasks[1].Time, want.Tasks[1].Learned = dag.TimeEstimate{Default: 2 * time.Hour}, learned(true)
	want.Tasks[2].Learned = learned(false)
	if spec.Tasks[0].Run != "v2" || job.Spec.Version != 2 {
		t.Errorf("version %d of the service runs %s", job.Spec.Version, spec.Tasks[0].Run)
	}
	for i := 1; i <= 2; i++ {
		got, want := spec.Tasks[i], want.Tasks[i]
		if !reflect.DeepEqual(got.Learned, want.Learned) || got.Time.Default != want.Time.Default {
			t.Errorf("%s: planned with %v, learned is %+v", got.Name, got.Time.Default, got.Learned)
		}
	}
	if update.Tasks[1].Learned != nil || update.Tasks[1].Time.Default != 0 {
		t.Error("the submitted spec was changed")
	}
}

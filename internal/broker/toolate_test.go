package broker

import (
	"context"
	"strings"
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

// lateBroker has a job of two tasks planned on spot, of which the first has just succeeded. left is the time to the
// deadline. It returns the broker after advance has handled that, and the texts of the emitted events.
func lateBroker(t *testing.T, left time.Duration, phases []record.Phase, tasks ...record.Task) (*Broker, string) {
	t.Helper()
	ctx := context.Background()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	b := New(config.Default(), Ports{Store: mem.New(), Now: func() time.Time { return now }})
	deadline := now.Add(left)
	spec := &dag.Job{
		Tasks: []dag.Task{
			{Name: "before", Time: dag.TimeEstimate{Default: time.Hour}, Nodes: 1, Resources: []dag.Resources{{}}},
			{Name: "after", Time: dag.TimeEstimate{Default: time.Hour}, Nodes: 1, Resources: []dag.Resources{{}}},
		},
		Edges: []dag.Edge{{From: 0, To: 1}},
	}
	plan := &record.Plan{Version: 1, Choice: []int32{0, 0}, Offers: []record.Planned{{ID: "aws/r/z/m/spot", Offer: apitypes.Offer{Spot: true, USDPerHour: 0.2}}}}
	bids := record.Bids{Plan: 1, FinishBy: []time.Time{deadline, deadline}, Table: []int32{-1, -1}}
	job := record.Job{ID: "j", State: apitypes.JobRunning, Tasks: 2, Deadline: deadline, Started: true}
	err := b.Transactor().Transact(ctx, "test", "begin", false, func(u *txn.Unit) error {
		for name, to := range map[string]struct {
			ref   *record.Blob
			value any
		}{"spec": {&job.Spec, spec}, "plan": {&job.Plan, plan}, "bids": {&job.Bids, bids}} {
			p, err := txn.Pack("j", name, 1, "t", to.value)
			if err != nil {
				return err
			}
			if err := p.Save(ctx, b.Ports().Store, u); err != nil {
				return err
			}
			*to.ref = p.Blob
		}
		var d record.Decision
		d.Put(record.JobKey("j"), job)
		d.Put(record.ProgressKey("j"), record.Progress{Phases: phases})
		for _, task := range tasks {
			d.Put(record.TaskKey("j", task.Index), task)
		}
		return u.Apply(d)
	})
	if err != nil {
		t.Fatal(err)
	}
	done := events.New("e1", "test", now, events.TaskSucceeded{Job: "j", Task: 0, Attempt: 1, Cluster: "j.0.1"})
	if errs := b.Functions.Handle(ctx, events.FnAdvance, []events.Event{done}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	out, err := b.Ports().Store.Outbox(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, e := range out {
		told += string(e.Body)
	}
	return b, told
}

// lateChild returns the record of the second task of lateBroker's job.
func lateChild(t *testing.T, b *Broker) (record.Task, bool) {
	t.Helper()
	task, found, err := recordcache.Get[record.Task](b.Transactor().NewUnit(t.Context(), "test"), record.TaskKey("j", 1))
	if err != nil {
		t.Fatal(err)
	}
	return task, found
}

// A parent ends so late that its child, planned on spot, could not survive a loss. The child must be announced, but
// wait for a newer plan and run on demand.
func TestAdvancePlansLateTasksOnDemand(t *testing.T) {
	for left, late := range map[time.Duration]bool{5 * time.Hour: false, 75 * time.Minute: true} {
		b, told := lateBroker(t, left, []record.Phase{record.PhaseReady, record.PhaseWaiting})
		task, found := lateChild(t, b)
		if found != late || late && (!task.OnDemand || task.MinPlan != 2 || task.State != record.TaskQueued) {
			t.Errorf("with %v left: %+v %v", left, task, found)
		}
		if !strings.Contains(told, events.TypeTaskReady) || strings.Contains(told, "too late for spot") != late {
			t.Errorf("with %v left it emits %s", left, told)
		}
	}
}

// The first member of a chunk succeeds, and the second one fails, in one attempt. Advance handles the success first
// and announces the second member again. The record of its failure must stay, because the event of the failure needs
// it, even if a new attempt would now be too late for spot.
func TestLateAnnouncementKeepsFailedMember(t *testing.T) {
	failed := record.Task{Job: "j", Index: 1, State: record.TaskFailed, Try: 1, Attempt: 1}
	b, told := lateBroker(t, 75*time.Minute, []record.Phase{record.PhaseReady, record.PhaseChunked}, failed)
	if task, _ := lateChild(t, b); task.State != record.TaskFailed || task.MinPlan != 0 {
		t.Errorf("%+v", task)
	}
	if strings.Contains(told, "too late for spot") {
		t.Errorf("it emits %s", told)
	}
}

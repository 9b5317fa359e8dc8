package broker_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TestWaitingJobStillAnnouncesReadyTasks: the cloud refuses everything while a wide job is still being announced, so
// the job waits for a plan. When machines are available again, all of it runs.
func TestWaitingJobStillAnnouncesReadyTasks(t *testing.T) {
	w := newBench(t)
	refusing := true
	w.cloud["aws"].refuse = func(s cloud.LaunchSpec) error {
		if refusing {
			return cloud.Errorf(s.Offer.Cloud, cloud.Auth, "Expired", "credentials have expired")
		}
		return nil
	}
	id := w.wide("infeasible: wait\n", 70) // needs more than two transactions to announce
	w.settle(events.TypeDAGAdvance)
	detail := func() *apitypes.JobDetail {
		t.Helper()
		d, err := w.b.Views.JobDetail(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := detail(); d.State != apitypes.JobWaiting {
		t.Fatalf("it is %s", d.State)
	}
	w.settle() // the event that continues the announcements comes late
	for i, task := range detail().TaskList {
		if task.State != string(record.TaskQueued) {
			t.Fatalf("task %d is %s", i, task.State)
		}
	}
	refusing = false
	for range 3 {
		w.now = w.now.Add(24 * time.Hour)
		w.reconcile()
		for w.work() > 0 {
		}
	}
	if d := detail(); d.State != apitypes.JobSucceeded {
		t.Errorf("it is %s", d.State)
	}
}

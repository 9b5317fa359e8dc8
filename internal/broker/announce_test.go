package broker_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TestWaitingJobStillAnnouncesReadyTasks: a wide job needs several transactions to announce its tasks. Meanwhile the
// cloud refuses every launch, so the job waits for a plan. When the cloud accepts launches again, every task must
// run.
func TestWaitingJobStillAnnouncesReadyTasks(t *testing.T) {
	w := newBench(t)
	refusing := true
	w.cloud["aws"].refuse = func(s cloud.LaunchSpec) error {
		if refusing {
			return cloud.Errorf(s.Offer.Cloud, cloud.Auth, "Expired", "credentials have expired")
		}
		return nil
	}
	id := w.wide("infeasible: wait\n", 70) // needs more than two transactions for its announcements
	w.deliverAll(events.TypeDAGAdvance)
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
	w.deliverAll() // the event that continues the announcements arrives late
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

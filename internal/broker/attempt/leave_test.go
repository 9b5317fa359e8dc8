package attempt

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// onSpot returns a task of three hours that has run for one hour on a spot machine at 0.30 USD an hour. Its last
// checkpoint is ten minutes old. left is the time to the task's deadline.
func onSpot(left time.Duration) (staying, time.Time) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	now := start.Add(time.Hour)
	st := staying{
		Losing: Losing{
			Job:     record.Job{ID: "j", State: apitypes.JobRunning},
			Task:    record.Task{Job: "j", State: record.TaskRunning, Attempt: 1, Progress: 50.0 / 180},
			Attempt: apitypes.Attempt{Job: "j", Number: 1, Started: start},
			Cluster: record.Cluster{ID: "j.0.1", Job: "j", Attempt: 1, State: record.ClusterUp, Offer: apitypes.Offer{Cloud: "aws", Zone: "a", Spot: true, USDPerHour: 0.3}},
		},
		spec: &dag.Task{Name: "train", Time: dag.TimeEstimate{Default: 3 * time.Hour}, Checkpoint: &dag.Checkpoint{Every: 15 * time.Minute}, Resources: []dag.Resources{{}}},
		bids: record.Bids{Table: []int32{-1}}, tick: 10 * time.Minute, restart: 10 * time.Minute,
	}
	if left > 0 {
		st.bids.FinishBy = []time.Time{now.Add(left)}
	}
	return st, now
}

func TestSpotIsKeptWhileLossLeavesTime(t *testing.T) {
	// If the machine is taken just before the next check in ten minutes, 130 minutes of work and a start of ten
	// minutes remain.
	for left, want := range map[time.Duration]record.Leaving{
		6 * time.Hour:                    "",
		150 * time.Minute:                "",
		150*time.Minute - time.Second:    record.LeaveForDeadline,
		130 * time.Minute:                record.LeaveForDeadline,
		130*time.Minute - 2*time.Second:  "", // already too late for on-demand: staying is the fastest
		130*time.Minute - 30*time.Minute: "",
	} {
		st, now := onSpot(left)
		why, reason := st.leave(now)
		if why != want {
			t.Errorf("%v left: %q (%s), want %q", left, why, reason, want)
		}
		if why != "" && !strings.Contains(reason, "not even on-demand would be in time") {
			t.Errorf("the reason is %q", reason)
		}
	}
}

func TestSpotIsLeftWhenNotWorthPrice(t *testing.T) {
	table, err := bidding.NewWorth(context.Background(), bidding.LiveTask{USD: 0.3, OnDemandUSD: 1, Work: 3, Left: 6, LossesPerHour: 0.01, Restart: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	for usd, want := range map[float64]record.Leaving{0: "", 0.3: "", 0.95: "", 4: record.LeaveForPrice} {
		for _, left := range []time.Duration{0, 5 * time.Hour} {
			st, now := onSpot(left)
			st.usd, st.bids.Tables, st.bids.Table = usd, []*bidding.Worth{table}, []int32{0}
			why, reason := st.leave(now)
			if why != want {
				t.Errorf("at %v USD with %v left: %q (%s), want %q", usd, left, why, reason, want)
			}
			if why != "" && !strings.Contains(reason, "spot costs 4.0000 USD/h now") {
				t.Errorf("the reason is %q", reason)
			}
		}
	}
}

func TestSpotOnlyTaskStays(t *testing.T) {
	st, now := onSpot(131 * time.Minute)
	st.spec.Resources = []dag.Resources{{Market: dag.MarketSpot}}
	if why, reason := st.leave(now); why != "" {
		t.Errorf("left: %s", reason)
	}
}

// TestTaskWithoutCheckpointsCountsAllWork: a task without checkpoints loses all of its work if its machine is taken,
// and also if it leaves.
func TestTaskWithoutCheckpointsCountsAllWork(t *testing.T) {
	st, now := onSpot(3*time.Hour + 15*time.Minute)
	st.spec.Checkpoint, st.Task.Progress = nil, 0
	if why, _ := st.leave(now); why != record.LeaveForDeadline {
		t.Errorf("%q with three hours of work to repeat and 3h15m left", why)
	}
	if st, now = onSpot(3*time.Hour + 21*time.Minute); true {
		st.spec.Checkpoint, st.Task.Progress = nil, 0
		if why, reason := st.leave(now); why != "" {
			t.Errorf("left: %s", reason)
		}
	}
}

func TestLeavingSavesWorkAndReplansOnDemand(t *testing.T) {
	st, now := onSpot(140 * time.Minute)
	d := DecideLeave(st.Cluster, record.LeaveForDeadline, "reason", 10*time.Minute, now)
	if len(d.Writes) != 1 {
		t.Fatalf("%d writes", len(d.Writes))
	}
	cl, ok := d.Writes[0].Value.(record.Cluster)
	if !ok || cl.State != record.ClusterDoomed || cl.Command != "save-now" && cl.Command == "" || cl.Seq != st.Cluster.Seq+1 {
		t.Fatalf("%+v", d.Writes[0].Value)
	}
	st.Cluster = cl
	lost := DecideLost(st.Losing, cl.LossOutcome(), cl.Reason, now.Add(time.Minute))
	var task record.Task
	var attempt apitypes.Attempt
	for _, w := range lost.Writes {
		switch v := w.Value.(type) {
		case record.Task:
			task = v
		case apitypes.Attempt:
			attempt = v
		}
	}
	if !task.OnDemand || task.State != record.TaskQueued || attempt.Outcome != apitypes.OutcomeMoved || attempt.Reason != "reason" {
		t.Errorf("task %+v, attempt %+v", task, attempt)
	}
	replanned := false
	for _, e := range lost.Emits {
		r, ok := e.(events.DAGReplan)
		replanned = replanned || ok && strings.HasPrefix(r.Reason, "left spot in ")
	}
	if !replanned {
		t.Errorf("emits %v", lost.Emits)
	}
}

func TestBidsHaveTableForEveryMovableSpotTask(t *testing.T) {
	spec := &dag.Job{Tasks: []dag.Task{
		{Name: "a", Time: dag.TimeEstimate{Default: time.Hour}, Checkpoint: &dag.Checkpoint{Every: 10 * time.Minute}, Resources: []dag.Resources{{}}},
		{Name: "b", Time: dag.TimeEstimate{Default: time.Hour}, Checkpoint: &dag.Checkpoint{Every: 10 * time.Minute}, Resources: []dag.Resources{{}}},
		{Name: "lost with its machine", Time: dag.TimeEstimate{Default: time.Hour}, Resources: []dag.Resources{{}}},
		{Name: "on demand", Time: dag.TimeEstimate{Default: time.Hour}, Resources: []dag.Resources{{}}},
	}}
	plan := &record.Plan{
		Version: 3, Choice: []int32{0, 0, 0, 1}, TaskHours: []float64{1, 1, 1, 1}, TaskOnDemandUSD: []float64{0.7, 0.7, 0.7, 0},
		Offers: []record.Planned{
			{ID: "x/spot", Offer: apitypes.Offer{Spot: true, USDPerHour: 0.2}, OnDemandUSD: 0.9, LossesPerHour: 0.01},
			{ID: "x/on-demand", Offer: apitypes.Offer{USDPerHour: 0.9}, OnDemandUSD: 0.9},
		},
	}
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	bids, err := bid.Decide(context.Background(), bid.Input{
		Job: record.Job{Deadline: now.Add(4 * time.Hour)}, Spec: spec, Plan: plan, Markets: make([]record.MarketRecord, 2), Restart: 10 * time.Minute, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(bids.Tables) != 1 || bids.Table[0] != 0 || bids.Table[1] != 0 || bids.Table[2] != -1 || bids.Table[3] != -1 {
		t.Errorf("%d tables, of tasks %v", len(bids.Tables), bids.Table)
	}
	if !bids.FinishBy[0].Equal(now.Add(4 * time.Hour)) {
		t.Errorf("%+v", bids)
	}
}

func TestTaskTooLateForSpotWaitsForOnDemandPlan(t *testing.T) {
	spec := &dag.Job{Tasks: []dag.Task{{Name: "a", Time: dag.TimeEstimate{Default: time.Hour}, Resources: []dag.Resources{{}}}}}
	plan := &record.Plan{Choice: []int32{0}, Offers: []record.Planned{{Offer: apitypes.Offer{Spot: true, USDPerHour: 0.2}}}}
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	cfg := config.Default()
	for left, want := range map[time.Duration]bool{3 * time.Hour: false, 80 * time.Minute: false, 79 * time.Minute: true, 59 * time.Minute: false} {
		if got := tooLate(spec, plan, &record.Bids{FinishBy: []time.Time{now.Add(left)}}, 0, cfg, now); got != want {
			t.Errorf("with %v left: %v", left, got)
		}
	}
}

// TestTaskOfBrokenGangReturnsToUsablePlan: a gang breaks, and its task returns to the queue. If a plan was made while
// the task ran, that plan has no new offer for it, so a new plan must be requested.
func TestTaskOfBrokenGangReturnsToUsablePlan(t *testing.T) {
	for _, c := range []struct{ admittedUnder, want, replans int }{{3, 3, 0}, {2, 4, 1}} {
		l := Losing{
			Job:     record.Job{ID: "j", State: apitypes.JobRunning, Plan: record.Blob{Version: 3}},
			Task:    record.Task{Job: "j", State: record.TaskRunning, Attempt: 1, Plan: c.admittedUnder, Gang: "g"},
			Cluster: record.Cluster{ID: "j.0.1", Job: "j", Attempt: 1, State: record.ClusterUp, Leaving: record.LeaveGang},
		}
		d := DecideLost(l, apitypes.OutcomeMoved, "another of its gang was lost", time.Now())
		minPlan, replans := -1, 0
		for _, w := range d.Writes {
			if task, ok := w.Value.(record.Task); ok {
				minPlan = task.MinPlan
			}
		}
		for _, e := range d.Emits {
			if _, ok := e.(events.DAGReplan); ok {
				replans++
			}
		}
		if minPlan != c.want || replans != c.replans {
			t.Errorf("admitted under plan %d of 3: it waits for plan %d and asks for %d new ones, want %d and %d",
				c.admittedUnder, minPlan, replans, c.want, c.replans)
		}
	}
}

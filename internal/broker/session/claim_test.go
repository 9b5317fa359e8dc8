package session

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

func TestStoppedTaskKeepsMachinesTwiceAsLong(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l := attempt.Losing{Cluster: record.Cluster{State: record.ClusterUp, Running: now}, Task: record.Task{State: record.TaskRunning}}
	for _, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		if l.CanLeave(10*time.Minute, now.Add(want-time.Second)) || !l.CanLeave(10*time.Minute, now.Add(want)) {
			t.Errorf("after %d stops it does not keep its machines for %v", len(l.Task.YieldedTo), want)
		}
		lost := attempt.DecideLost(attempt.Losing{
			Cluster: record.Cluster{Leaving: record.LeaveForOthers, For: "b/u"}, Task: l.Task, Job: record.Job{State: apitypes.JobRunning},
		}, apitypes.OutcomeMoved, "", now)
		for _, w := range lost.Writes {
			if task, ok := w.Value.(record.Task); ok {
				l.Task.YieldedTo = task.YieldedTo
			}
		}
	}
}

func TestClaimExpires(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var q apitypes.Queue
	record.AddClaim(&q, apitypes.Claim{For: "a/t", Until: now.Add(time.Minute)}, now)
	record.AddClaim(&q, apitypes.Claim{For: "b/t", Until: now.Add(time.Hour)}, now)
	if !q.Claimed("a/t", now) || q.Claimed("a/t", now.Add(time.Minute)) || !q.Claimed("b/t", now.Add(time.Minute)) {
		t.Errorf("claims %+v", q.Claims)
	}
	if record.AddClaim(&q, apitypes.Claim{For: "c/t", Until: now.Add(time.Hour)}, now.Add(time.Minute)); len(q.Claims) != 2 {
		t.Errorf("an expired claim is kept: %+v", q.Claims)
	}
	if record.DropClaim(&q, "b/t"); q.Claimed("b/t", now) {
		t.Error("an admitted task still has a claim")
	}
}

// TestStoppedTaskDoesNotEvictInReturn makes room for a task by evicting one that it was stopped for, and by evicting
// another.
func TestStoppedTaskDoesNotEvictInReturn(t *testing.T) {
	room := func(yielded ...string) []scheduler.Eviction {
		snap := snapshot([]*apitypes.Queue{{Name: "lab", Inner: true, MaxVCPU: 8}, {Name: "a", Parent: "lab"}, {Name: "b", Parent: "lab"}}, time.Time{})
		other := held("u.1", "b", amount(1, 8))
		other.Kept, other.Tasks[0].ID = false, "u.1"
		snap.Jobs = append(snap.Jobs, other)
		mine := scheduler.Job{ID: "t", Queue: "a", Phase: scheduler.Started, Tasks: []scheduler.Task{{ID: "0", Spec: &scheduler.Spec{Request: amount(1, 4)}}}}
		mine.Spares = spares(snap.Jobs, map[string]holding{"u.1": {claim: "b/u"}}, yielded)
		snap.Jobs = append(snap.Jobs, mine)
		s, err := scheduler.Open(snap, only(OwnPolicy(), "reclaim", time.Hour), scheduler.WithGuards())
		if err != nil {
			t.Fatal(err)
		}
		s.Run()
		return s.Close().Evictions
	}
	if got := room("b/other"); len(got) != 1 {
		t.Errorf("no eviction: %+v", got)
	}
	if got := room("b/u"); len(got) != 0 {
		t.Errorf("it evicts the task that it was stopped for: %+v", got)
	}
}

func TestWholeClaims(t *testing.T) {
	var all []scheduler.Eviction
	for _, f := range []string{"a", "a", "a", "b", "b", "c"} {
		all = append(all, scheduler.Eviction{For: f})
	}
	for most, want := range map[int]int{1: 3, 3: 3, 4: 5, 6: 6} {
		if got := wholeClaims(all, most); len(got) != want {
			t.Errorf("%d evictions, limit %d: got %d, want %d", len(all), most, len(got), want)
		}
	}
}

// A stopped gang may still hold something when it waits again. Its running tasks must not be evicted for its waiting
// ones.
func TestRunningAndWaitingGangTasksAreSeparateJobs(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	q := &apitypes.Queue{Name: "lab", Running: 1, VCPU: 4}
	s := &Session{Input: Input{Policy: OwnPolicy()}, u: recordcache.NewDraft(nil, now, 0), tree: []*apitypes.Queue{q}}
	task := record.Task{Gang: "g"}
	left := attempt.Losing{Job: record.Job{ID: "j"}, Task: task, Cluster: record.Cluster{ID: "j.0.1", VCPU: 4, State: record.ClusterReleasing}}
	x := s.scene(nil)
	x.addHeld(map[string]holding{"j.0.1": {Losing: left, queue: q}}, func(holding) bool { return false })
	a := &admission{side: &side{job: left.Job}, queue: q, task: task, name: "t"}
	if _, fresh := x.job(a.claim(), a); !fresh || len(x.Jobs) != 2 {
		t.Errorf("the waiting task joined an existing job: %+v", x.Jobs)
	}
}

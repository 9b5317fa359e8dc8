package check

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Of what is stopped for others, at every transaction; and how long a job may take in all:
const (
	// InvThrown: a task is stopped for others no more often than its work can be halved down to a start, so that what
	// that throws away is bounded by the job's own work.
	InvThrown = "what reclaiming throws away is bounded"
	// InvTurn: what is stopped for another never has that one stopped for it.
	InvTurn = "nothing is taken in turn"
	// InvBound: once nothing fails any more, a job ends within the time that its own work takes and that of its tree
	// of queues.
	InvBound = "a job ends within its bound"
)

// lag is how much longer than its work an attempt may seem to run: its report comes late, or others of its gang do.
const lag = time.Hour

// placedWaits is what it may take until it is seen that a place is free, in all.
const placedWaits = 12 * time.Hour

// GiveUp is how far into the calm people cancel what waits for the impossible, and as often after.
const GiveUp = 2 * time.Hour

// reclaimChecker knows what was stopped for whom.
type reclaimChecker struct {
	stops map[string]int             // of a task, by job/name
	gave  map[string]map[string]bool // the claims that one was stopped for, by the claim that it is itself
}

func newReclaimChecker() reclaimChecker {
	return reclaimChecker{stops: map[string]int{}, gave: map[string]map[string]bool{}}
}

// checkStopped checks a cluster that is told to stop for others.
func (c *Checker) checkStopped(s *Job, old, cl record.Cluster) {
	room := cl.Leaving == record.LeaveForRoom
	if cl.Leaving != record.LeaveForOthers && !room || old.Leaving == cl.Leaving || s.user == nil {
		return
	}
	c.Count("stopped for others")
	c.checkAgain(s, cl)
	if room {
		c.moved(s, cl)
	}
	t := &s.user.Spec.Tasks[cl.Task]
	task := s.ID + "/" + t.Name
	claim := task
	if t.Gang != "" {
		claim = s.ID + "/gang/" + t.Gang
	}
	if c.reclaim.stops[task]++; c.reclaim.stops[task] > s.mostStops(cl.Task, c.cfg.Restart) {
		c.Violatef(InvThrown, "%s is stopped for the %d. time, and its work is %v", task, c.reclaim.stops[task],
			s.longest(cl.Task))
	}
	if c.reclaim.gave[cl.For][claim] {
		c.Violatef(InvTurn, "%s is stopped for %s, which had been stopped for it", claim, cl.For)
	}
	if c.reclaim.gave[claim] == nil {
		c.reclaim.gave[claim] = map[string]bool{}
	}
	c.reclaim.gave[claim][cl.For] = true
}

// longest is how long a task takes at most, all of it.
func (s *Job) longest(task int) time.Duration {
	t := &s.user.Spec.Tasks[task]
	if t.StandIn() {
		return t.Recorded
	}
	slowest := t.Time.Default
	for _, d := range t.Time.On {
		slowest = max(slowest, d)
	}
	return time.Duration(float64(slowest) * s.user.Factor[task])
}

// mostStops is how often a task may be stopped for others: each time it has run for twice as long as the time before.
func (s *Job) mostStops(task int, restart time.Duration) int {
	runs := s.longest(task) + lag
	tries := 1 + s.user.Spec.Tasks[task].RetriesAfter(scriptFailed)
	return tries * (1 + int(math.Log2(max(1, runs.Seconds()/restart.Seconds()))))
}

// Bound notes by when the jobs that go on have to end, now that nothing fails any more: within the time that all
// work of their tree takes, task after task with as many starts as it may have, and what they may wait for: money,
// places and better prices.
func (c *Checker) Bound() {
	trees := map[string]time.Duration{}
	for _, u := range c.wanted {
		s := c.byName[u.Spec.Name]
		if s == nil || s.Record.State.Over() {
			continue
		}
		for i := range u.Spec.Tasks {
			if s.Tasks[i].State == record.TaskSucceeded {
				continue
			}
			runs := u.Spec.Tasks[i].RetriesAfter(scriptFailed) + 1 + s.mostStops(i, c.cfg.Restart)
			if u.Deadly[i] {
				runs += attempt.MostSilent
			}
			trees[c.root(s.Record.Queue)] += time.Duration(runs) *
				(s.longest(i) + planner.PlannedOverhead + c.cfg.Overhead + u.Spec.KeepOnFailure)
		}
	}
	placed, all, latest := false, time.Duration(0), time.Duration(0)
	for _, u := range c.wanted {
		s := c.byName[u.Spec.Name]
		if s == nil || s.Record.State.Over() {
			continue
		}
		placed = placed || record.IsPlaced(u.Spec)
		latest = max(latest, s.Record.Deadline.Sub(c.Now))
	}
	for _, work := range trees {
		all += work
	}
	for _, u := range c.wanted {
		if s := c.byName[u.Spec.Name]; s != nil && !s.Record.State.Over() {
			s.calm = c.Now
			s.endBy = c.Now.Add(2*GiveUp + planner.PlannedDetect + trees[c.root(s.Record.Queue)])
			if placed { // one may wait for others to go from where it is to be, and its queue's for it
				s.endBy = c.Now.Add(2*GiveUp + planner.PlannedDetect + all + latest + placedWaits)
			}
			if s.Record.Deadline.After(c.Now) { // until when it may wait for a better price
				s.endBy = s.endBy.Add(s.Record.Deadline.Sub(c.Now))
			}
			s.endBy = s.endBy.Add(max(c.Suspensions.Last.Sub(c.Now), 0)) // until when others may wait, too
			if u.Spec.HasServices() {
				s.endBy = time.Time{} // it ends when its author wants it to
			}
		}
	}
}

// root is the queue at the top of one's tree.
func (c *Checker) root(queue string) string {
	for range len(c.queues) {
		parent := c.queues[queue].Parent
		if parent == "" {
			break
		}
		queue = parent
	}
	return queue
}

// checkBound checks that a job has not gone on for longer than it may.
func (c *Checker) checkBound(s *Job) {
	c.checkChiefs(s)
	if !s.endBy.IsZero() && c.Now.After(s.endBy) && !s.Record.State.Over() {
		c.Violatef(InvBound, "it had to end by %v: %s",
			s.endBy.Sub(timeline.Beginning()).Round(time.Second), s.describe())
	}
}

package check

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

// Invariants of tasks that are stopped for others, which are checked at every transaction, and of the total duration
// of a job.
const (
	// InvThrown: the number of times that a task is stopped for others is limited. Its work can be halved only that
	// often before it is as short as a start. So the lost work is bounded by the job's own work.
	InvThrown = "work lost by reclaiming is bounded"
	// InvTurn: if a task is stopped for another one, that other task is never stopped for the first.
	InvTurn = "two tasks never stop each other"
	// InvBound: after faults have stopped, a job ends within the time that its work and its tree of queues take.
	InvBound = "a job ends within its bound"
)

// lag is the maximum time by which an attempt may seem to run longer than its work takes, because its report or those
// of its gang come late.
const lag = time.Hour

// placedWaits is the total time until the broker finds that a place is free.
const placedWaits = 12 * time.Hour

// GiveUp is the time after the end of the faults at which users cancel jobs that can never run. They repeat the
// request.
const GiveUp = 2 * time.Hour

// reclaimChecker records which tasks were stopped for which.
type reclaimChecker struct {
	stops map[string]int             // number of stops by task, job/name
	gave  map[string]map[string]bool // the claims that a claim was stopped for
}

func newReclaimChecker() reclaimChecker {
	return reclaimChecker{stops: map[string]int{}, gave: map[string]map[string]bool{}}
}

// checkStopped checks a cluster that is stopped for others.
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

// longest returns the maximum duration of a whole task.
func (s *Job) longest(task int) time.Duration {
	t := &s.user.Spec.Tasks[task]
	if t.Worker != nil { // it runs as long as its tasks
		sum := time.Duration(0)
		for i := range s.user.Spec.Work() {
			if s.user.Spec.Tasks[i].ShareGroup == t.Worker.Group+1 {
				sum += s.longest(i)
			}
		}
		return sum
	}
	if t.StandIn() {
		return t.Recorded
	}
	slowest := t.Time.Default
	for _, d := range t.Time.On {
		slowest = max(slowest, d)
	}
	return time.Duration(float64(slowest) * s.user.Factor[task])
}

// mostStops returns the number of times that a task may be stopped for others. Its minimum run time doubles with each
// stop.
func (s *Job) mostStops(task int, restart time.Duration) int {
	runs := s.longest(task) + lag
	tries := 1 + s.user.Spec.Tasks[task].RetriesAfter(scriptFailed)
	return tries * (1 + int(math.Log2(max(1, runs.Seconds()/restart.Seconds()))))
}

// Bound sets the time by which running jobs must end, after faults have stopped. It is the time of all work in their
// tree of queues, one task after the other with all allowed starts, plus the time for which they may wait for money,
// places and better prices.
func (c *Checker) Bound() {
	c.owed.calm = true
	trees := map[string]time.Duration{}
	for _, u := range c.wanted {
		s := c.byName[u.Spec.Name]
		if s == nil || s.Record.State.Finished() {
			continue
		}
		for i := range u.Spec.Tasks {
			if s.Tasks[i].State == record.TaskSucceeded || s.isWorker(i) {
				continue
			}
			runs := u.Spec.Tasks[i].RetriesAfter(scriptFailed) + 1 + s.mostStops(i, c.cfg.Restart)
			if u.Deadly[i] {
				runs += attempt.MaxSilent
			}
			if s.shares(i) { // each on another worker, which may be idle before it
				trees[c.root(s.Record.Queue)] += time.Duration(runs) * (planner.PlannedOverhead + idleWorth)
			}
			trees[c.root(s.Record.Queue)] += time.Duration(runs) *
				(s.longest(i) + planner.PlannedOverhead + c.cfg.Overhead + u.Spec.KeepOnFailure)
		}
	}
	placed, all, latest := false, time.Duration(0), time.Duration(0)
	for _, u := range c.wanted {
		s := c.byName[u.Spec.Name]
		if s == nil || s.Record.State.Finished() {
			continue
		}
		placed = placed || record.IsPlaced(u.Spec)
		latest = max(latest, s.Record.Deadline.Sub(c.Now))
	}
	for _, work := range trees {
		all += work
	}
	for _, u := range c.wanted {
		if s := c.byName[u.Spec.Name]; s != nil && !s.Record.State.Finished() {
			s.calm = c.Now
			s.endBy = c.Now.Add(2*GiveUp + planner.PlannedDetect + trees[c.root(s.Record.Queue)])
			if placed { // the job may wait until other tasks leave its place, and tasks of its queue wait for the job
				s.endBy = c.Now.Add(2*GiveUp + planner.PlannedDetect + all + latest + placedWaits)
			}
			if s.Record.Deadline.After(c.Now) { // it may wait for a better price until then
				s.endBy = s.endBy.Add(s.Record.Deadline.Sub(c.Now))
			}
			s.endBy = s.endBy.Add(max(c.Suspensions.Last.Sub(c.Now), 0)) // others may wait until then, too
			if u.Spec.HasServices() {
				s.endBy = time.Time{} // services end when their author ends them
			}
		}
	}
}

// root returns the top queue of a queue's tree.
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

// checkBound checks that a job has not exceeded its bound.
func (c *Checker) checkBound(s *Job) {
	c.checkChiefs(s)
	if !s.endBy.IsZero() && c.Now.After(s.endBy) && !s.Record.State.Finished() {
		c.Violatef(InvBound, "it had to end by %v: %s",
			s.endBy.Sub(timeline.Beginning()).Round(time.Second), s.describe())
	}
}

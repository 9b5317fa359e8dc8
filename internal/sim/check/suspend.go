package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Of what people have wait:
const (
	// InvSuspended: what is suspended, or in a queue that is to be empty, is admitted nothing, and holds no machine
	// after the grace.
	InvSuspended = "what is suspended holds nothing"
)

// suspendedWithin is how long a machine may run of what is suspended: until its work is saved, or was to be, and then
// as one that nothing needs.
func (c *Checker) suspendedWithin() time.Duration {
	return c.cfg.Overhead + c.cfg.StuckFor + ownedWithin
}

// Suspensions are what people have told the broker of queues, and it has said that it does so.
type Suspensions struct {
	Closed map[string]time.Time // queues that are to admit nothing, since when
	Empty  map[string]time.Time // and to be empty
	Last   time.Time            // when the last is to be resumed
}

// suspended is since when a job is to be admitted nothing, and to hold nothing; zero where neither is.
func (c *Checker) suspended(s *Job) (closed, empty time.Time) {
	if s.user == nil || s.Record.State == apitypes.JobEnding || s.Record.State.Over() {
		return closed, empty
	}
	closed, empty = s.user.Waits, s.user.Waits
	queue := s.Record.Queue
	for range len(c.queues) + 1 {
		if at := c.Suspensions.Closed[queue]; !at.IsZero() && (closed.IsZero() || at.Before(closed)) {
			closed = at
		}
		if at := c.Suspensions.Empty[queue]; !at.IsZero() && (empty.IsZero() || at.Before(empty)) {
			empty = at
		}
		queue = c.queues[queue].Parent
	}
	return closed, empty
}

// checkAdmitted checks that nothing is admitted of what is suspended. What was decided before has not heard of it.
func (c *Checker) checkAdmitted(s *Job, a apitypes.Attempt) {
	if closed, _ := c.suspended(s); !closed.IsZero() && a.Admitted.After(closed) {
		c.Violatef(InvSuspended, "task %d of %s is admitted %v after it was suspended", a.Task, s.ID,
			a.Admitted.Sub(closed).Round(time.Second))
	}
}

// checkSuspended checks that a machine does not go on for what is suspended.
func (c *Checker) checkSuspended(s *Job, m *Machine) {
	stalled, _ := c.sky.Stalled(events.FnInterrupt)
	if _, empty := c.suspended(s); empty.IsZero() || c.sky.Outage(m.Cloud) {
		delete(c.held, m)
		return
	}
	if stalled || c.reconcileStalled() {
		return
	}
	c.Count("runs on while it is suspended")
	if c.held[m] += lookEvery; c.held[m] > c.suspendedWithin() {
		cl := s.clusters[m.Cluster]
		c.Violatef(InvSuspended, "%s of %s runs on %v after its job or queue was suspended (%s %s %s)", m.ID, m.Cluster,
			c.held[m], cl.State, cl.Leaving, cl.Outcome)
	}
}

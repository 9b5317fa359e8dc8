package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// For suspended jobs and queues:
const (
	// InvSuspended: a suspended job, or one in a queue that is being emptied, is not admitted and holds no machine
	// after the grace.
	InvSuspended = "a suspended job holds nothing"
)

// suspendedWithin is the maximum time for which a machine of a suspended job runs: the time until its work is saved,
// or the limit of that, plus the time for which any machine may run that is not needed any more.
func (c *Checker) suspendedWithin() time.Duration {
	return c.cfg.Overhead + c.cfg.StuckFor + ownedWithin
}

// Suspensions are the suspensions of queues that users have requested and the broker has confirmed.
type Suspensions struct {
	Closed map[string]time.Time // queues that must admit nothing, since when
	Empty  map[string]time.Time // queues that must also be emptied
	Last   time.Time            // when the last suspension ends
}

// suspended returns the time since which a job must not be admitted, and the time since which it must hold no
// machines; zero if there is none.
func (c *Checker) suspended(s *Job) (closed, empty time.Time) {
	if s.user == nil || s.Record.State == apitypes.JobEnding || s.Record.State.Finished() {
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

// checkAdmitted checks that no suspended job is admitted. A decision made before the suspension is allowed.
func (c *Checker) checkAdmitted(s *Job, a apitypes.Attempt) {
	if closed, _ := c.suspended(s); !closed.IsZero() && a.Admitted.After(closed) {
		c.Violatef(InvSuspended, "task %d of %s is admitted %v after it was suspended", a.Task, s.ID,
			a.Admitted.Sub(closed).Round(time.Second))
	}
}

// checkSuspended checks that a machine does not keep running for a suspended job.
func (c *Checker) checkSuspended(s *Job, m *Machine) {
	stalled, _ := c.sky.Stalled(events.FnInterrupt)
	if _, empty := c.suspended(s); empty.IsZero() || c.sky.Outage(m.Cloud) {
		delete(c.held, m)
		return
	}
	if stalled || c.reconcileStalled() {
		return
	}
	c.Count("runs while suspended")
	if c.held[m] += lookEvery; c.held[m] > c.suspendedWithin() {
		cl := s.clusters[m.Cluster]
		c.Violatef(
			InvSuspended,
			"%s of %s still runs %v after its job or queue was suspended (%s %s %s)",
			m.ID,
			m.Cluster,
			c.held[m],
			cl.State,
			cl.Leaving,
			cl.Outcome,
		)
	}
}

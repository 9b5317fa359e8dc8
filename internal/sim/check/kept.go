package check

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Of what people look at:
const (
	// InvKept: the machines of a task that has failed are kept for as long as its author wants to look at them.
	InvKept = "what is to be looked at is kept"
)

// Lingers is called when an agent keeps what its failed task has left. The first of a cluster's counts.
func (c *Checker) Lingers(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		if _, known := s.lingered[m.Cluster]; !known {
			s.lingered[m.Cluster] = c.Now
		}
	}
}

// Leaves is called when it is told to let go, or learns that its machine will be taken.
func (c *Checker) Leaves(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		s.lingered[m.Cluster] = time.Time{}
	}
}

// lingers says whether a machine may run on though its task has failed.
func (s *Job) lingers(c *Checker, m *Machine) bool {
	since := s.lingered[m.Cluster]
	return s.user != nil && !since.IsZero() && c.Now.Before(since.Add(s.user.Spec.KeepOnFailure))
}

// keptRecord looks whether a cluster's record lets go what was kept.
func (c *Checker) keptRecord(s *Job, old, cl record.Cluster) {
	if cl.State == record.ClusterReleasing && old.State != cl.State || cl.KeptUntil.Before(old.KeptUntil) {
		c.checkKept(s, old)
		s.lingered[cl.ID] = time.Time{}
	}
}

// checkKept checks a cluster that is let go. One is let go early when nobody needs it any more: its job has succeeded,
// or is cancelled or suspended; when its job's money is used up, or its queue's of the month; and when it is gone,
// silent, or wanted back. One that was wanted back before its task failed is not kept at all.
func (c *Checker) checkKept(s *Job, cl record.Cluster) {
	since := s.lingered[cl.ID]
	wanted := cl.State == record.ClusterDoomed && cl.KeptUntil.IsZero()
	if s.user == nil || since.IsZero() || wanted || cl.Outcome != apitypes.OutcomeFailed || cl.Assigned() ||
		!c.Now.Before(since.Add(s.user.Spec.KeepOnFailure)) {
		return
	}
	_, empty := c.suspended(s)
	suspended := !empty.IsZero() || c.recordedSuspended(s) // the broker may act before it has answered who asked
	unseen := slices.ContainsFunc(cl.Nodes, func(n record.Node) bool { return c.Now.Sub(n.Seen) > c.cfg.SilentFor })
	dead := slices.ContainsFunc(s.machines, func(m *Machine) bool {
		return m.Cluster == cl.ID && (!m.Alive() || !m.Speaks)
	})
	before := s.ending.step > 0 && s.ending.step < s.closed[cl.ID].step // then nothing of the job is kept any more
	if before || s.user.Cancelled || c.moneyBounds(s) || suspended || unseen || dead ||
		s.Record.Outcome == apitypes.JobSucceeded || s.Record.State.Over() {
		return
	}
	c.Violatef(InvKept, "%s was to be kept for %v, and is released after %v", cl.ID, s.user.Spec.KeepOnFailure,
		c.Now.Sub(since).Round(time.Second))
}

// moneyBounds says whether a job may cost only so much, or its queue in a month.
func (c *Checker) moneyBounds(s *Job) bool {
	return s.user.Spec.Budget > 0 || c.month.paid(s.Record.Queue, c.queues)
}

// recordedSuspended says whether the records of a job, or of a queue that it is in, have it hold nothing.
func (c *Checker) recordedSuspended(s *Job) bool {
	if s.Record.Suspended() != nil {
		return true
	}
	queue := s.Record.Queue
	for range len(c.queues) + 1 {
		if q := c.queues[queue]; q.Suspended.Drain && q.Closed {
			return true
		}
		queue = c.queues[queue].Parent
	}
	return false
}

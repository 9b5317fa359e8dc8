package check

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// For machines that are kept for debugging:
const (
	// InvKept: the machines of a failed task are kept for the time that its author requested.
	InvKept = "machines are kept for debugging"
)

// Lingers is called when an agent keeps the files of its failed task. Only the first call for a cluster counts.
func (c *Checker) Lingers(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		if _, known := s.lingered[m.Cluster]; !known {
			s.lingered[m.Cluster] = c.Now
		}
	}
}

// Leaves is called when the broker commands an agent to stop keeping the files, or when the agent learns that its
// machine will be taken.
func (c *Checker) Leaves(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		s.lingered[m.Cluster] = time.Time{}
	}
}

// lingers reports whether a machine may keep running after its task has failed.
func (s *Job) lingers(c *Checker, m *Machine) bool {
	since := s.lingered[m.Cluster]
	return s.user != nil && !since.IsZero() && c.Now.Before(since.Add(s.user.Spec.KeepOnFailure))
}

// keptRecord checks whether a cluster's record releases kept machines.
func (c *Checker) keptRecord(s *Job, old, cl record.Cluster) {
	if cl.State == record.ClusterReleasing && old.State != cl.State || cl.KeptUntil.Before(old.KeptUntil) {
		c.checkKept(s, old)
		s.lingered[cl.ID] = time.Time{}
	}
}

// checkKept checks a kept cluster that is released. Early release is allowed in three cases: its job has succeeded,
// or is cancelled or suspended; the money of the job or of its queue's month is used up; or the cluster has ended, is
// silent, or was reclaimed. A cluster that was reclaimed before its task failed is not kept at all.
func (c *Checker) checkKept(s *Job, cl record.Cluster) {
	since := s.lingered[cl.ID]
	wanted := cl.State == record.ClusterDoomed && cl.KeptUntil.IsZero()
	if s.user == nil || since.IsZero() || wanted || cl.Outcome != apitypes.OutcomeFailed || cl.Assigned() ||
		!c.Now.Before(since.Add(s.user.Spec.KeepOnFailure)) {
		return
	}
	_, empty := c.suspended(s)
	suspended := !empty.IsZero() || c.recordedSuspended(s) // the broker may act before the caller has its answer
	unseen := slices.ContainsFunc(cl.Nodes, func(n record.Node) bool { return c.Now.Sub(n.Seen) > c.cfg.SilentFor })
	dead := slices.ContainsFunc(s.machines, func(m *Machine) bool {
		return m.Cluster == cl.ID && (!m.Alive() || !m.Speaks)
	})
	before := s.ending.step > 0 && s.ending.step < s.closed[cl.ID].step // an ending job keeps nothing
	if before || s.user.Cancelled || c.moneyBounds(s) || suspended || unseen || dead ||
		s.Record.Outcome == apitypes.JobSucceeded || s.Record.State.Finished() {
		return
	}
	c.Violatef(InvKept, "%s should be kept for %v, but is released after %v", cl.ID, s.user.Spec.KeepOnFailure,
		c.Now.Sub(since).Round(time.Second))
}

// moneyBounds reports whether the job has a budget, or its queue a monthly one.
func (c *Checker) moneyBounds(s *Job) bool {
	return s.user.Spec.Budget > 0 || c.month.paid(s.Record.Queue, c.queues)
}

// recordedSuspended reports whether, by the records of a job or of its queues, the job must hold no machines.
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

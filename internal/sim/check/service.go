package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// For services:
const (
	// InvReplicas: after faults have stopped, a replica that can run becomes ready within a bound and stays ready. A
	// replica that ends is restarted.
	InvReplicas = "a service has its replicas"
	// InvHandOver: a replica that is replaced ends only when its replacement is ready.
	InvHandOver = "a replica ends after its replacement is ready"
	// InvUpdate: an update ends, and then all replicas run the correct version.
	InvUpdate = "an update replaces all replicas"
)

// serves reports whether a task is a replica of a service.
func (s *Job) serves(task int) bool { return s.service(task) != nil }

// mayLeave reports whether a task that waited in its queue may leave it without being admitted.
func (s *Job) mayLeave(t record.Task) bool {
	return s.doneWithOthers(t) || s.readyAgain(t) || s.isWorker(t.Index) && t.State == record.TaskSucceeded
}

// readyAgain reports whether a replica that waited to be replaced continues because it became ready again.
func (s *Job) readyAgain(t record.Task) bool {
	return s.serves(t.Index) && t.State == record.TaskRunning
}

func (s *Job) service(task int) *dag.Service {
	if s.user == nil || task >= len(s.user.Spec.Tasks) {
		return nil
	}
	return s.user.Spec.Tasks[task].Service
}

// checkReplaced checks that the replacement of a replica has been ready on its machine.
func (c *Checker) checkReplaced(s *Job, old, cl record.Cluster) {
	if old.Leaving != "" || cl.Leaving != record.LeaveReplaced {
		return
	}
	c.Count("a replica is replaced")
	if from := later(s.calm, s.Record.Update.Since); s.replaced == nil || !from.Equal(s.replacedFrom) {
		s.replaced, s.replacedFrom = map[int]int{}, from
	}
	if s.replaced[cl.Task]++; !s.calm.IsZero() && s.replaced[cl.Task] > mostReplaced {
		c.Violatef(InvUpdate, "task %d of %s is replaced for the %dth time since %v", cl.Task, s.ID,
			s.replaced[cl.Task], s.replacedFrom.Sub(timeline.Beginning()).Round(time.Second))
	}
	for _, m := range s.machines {
		if task, attempt, ok := record.ClusterAttempt(m.Cluster); ok && task == cl.Task && attempt > cl.Attempt &&
			m.Served {
			return
		}
	}
	c.Violatef(InvHandOver, "%s is released, but no other replica of task %d has been ready", cl.ID, cl.Task)
}

// mostReplaced is the maximum number of times that a replica is replaced after faults have stopped: for an update,
// when the update is stopped, and because it was not ready.
const mostReplaced = 5

// checkUpdated checks that replicas run the right version when an update is reported as done.
func (c *Checker) checkUpdated(s *Job, old, j record.Job) {
	if old.Update.Done.Equal(j.Update.Done) || j.Update.Done.IsZero() {
		return
	}
	c.Count("an update ends")
	if j.Update.Failed != "" {
		c.Count("an update is stopped")
	}
	for i := range s.user.Spec.Tasks {
		t := s.Tasks[i]
		if cl := s.clusters[record.ClusterID(s.ID, i, t.Attempt)]; s.serves(i) && t.Attempt > 0 &&
			cl.Spec != j.Spec.Version {
			c.Violatef(InvUpdate, "the update of %s to version %d is done, but %s runs %d", s.ID, j.Spec.Version, cl.ID,
				cl.Spec)
		}
	}
}

// checkReplicas checks that replicas are ready and updates end, after faults have stopped.
func (c *Checker) checkReplicas(s *Job) {
	if s.user == nil || !s.user.Spec.HasServices() {
		return
	}
	s.serving(c.Now)
	if s.calm.IsZero() || s.Record.State != apitypes.JobRunning || s.Record.Suspended() != nil ||
		s.Record.BudgetUSD > 0 || record.IsPlaced(s.user.Spec) {
		return
	}
	up := &s.Record.Update
	if from := later(later(s.calm, up.Since), s.Record.Resumed()); up.Open() &&
		c.Now.Sub(from) > time.Duration(s.Record.Tasks+1)*comesUpWithin {
		c.Violatef(InvUpdate, "the update of %s to version %d runs since %v: %s", s.ID, up.Spec,
			from.Sub(timeline.Beginning()).Round(time.Second), s.describe())
	}
	for i := range s.user.Spec.Tasks {
		t, known := s.Tasks[i]
		if !s.serves(i) || !known || max(t.MinPlan, s.Record.MinPlan) > s.Record.Plan.Version {
			continue
		}
		if c.overLimitWith(s, i) {
			s.served[i] = c.Now
			continue
		}
		if from := s.missedSince(i); c.Now.Sub(from) > comesUpWithin {
			c.Violatef(InvReplicas, "task %d of %s is %s, and not ready since %v: %s", i, s.ID, t.State,
				from.Sub(timeline.Beginning()).Round(time.Second), s.describe())
		}
	}
}

// serving records which replicas are ready at a time.
func (s *Job) serving(now time.Time) {
	for _, m := range s.machines {
		if task, _, ok := record.ClusterAttempt(m.Cluster); ok && m.Alive() && m.Ready {
			s.served[task] = now
		}
	}
}

// overLimitWith reports whether the machines of a queued task, in addition to those that are bought, would exceed the
// limit of the deployment. The replicas of a service may need more than that together, or all of it for as long as
// they run.
func (c *Checker) overLimitWith(s *Job, task int) bool {
	if c.cfg.Limit.None() || s.Tasks[task].State != record.TaskQueued {
		return false
	}
	rate := 0.0
	for _, a := range s.order {
		if a.task == task || s.serves(a.task) {
			rate = max(rate, a.Offer.USDPerHour, a.MaxUSD)
		}
	}
	machines, usd := c.bought()
	nodes := s.user.Spec.Tasks[task].Nodes
	return c.exceeds(machines+nodes, usd+rate*float64(nodes))
}

// missedSince returns the time since which a replica that is not ready could have been ready or restarted.
func (s *Job) missedSince(task int) time.Time {
	from := later(later(s.calm, s.planned), s.Record.Resumed())
	from = later(later(from, s.served[task]), s.Tasks[task].ReadyAt)
	for _, a := range s.order {
		if a.task == task && a.Outcome == apitypes.OutcomeFailed {
			from = later(from, a.Ended)
		}
	}
	return from
}

// comesUpWithin is the maximum time until a replica is ready if nothing prevents its start. It is the sum of the
// longest delay of a retry, the start of its machines including the time to find them, and the time until the replica
// is ready.
const comesUpWithin = 2 * time.Hour

package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Of services:
const (
	// InvReplicas: once nothing fails any more, a replica of a service that nothing keeps is ready within a bound, and
	// stays so; one that ends is begun anew.
	InvReplicas = "a service has its replicas"
	// InvHandOver: a replica that is let go of for another one goes when that one is ready.
	InvHandOver = "a replica goes when another has taken its place"
	// InvUpdate: an update comes to its end, and then all replicas run what they are to.
	InvUpdate = "an update replaces all replicas"
)

// serves says whether a task is a replica of a service.
func (s *Job) serves(task int) bool { return s.service(task) != nil }

// mayLeave says of a task that waited in its queue that it need not be admitted.
func (s *Job) mayLeave(t record.Task) bool { return s.doneWithOthers(t) || s.readyAgain(t) }

// readyAgain says of a replica that waited to be replaced that it goes on, as it was ready again before.
func (s *Job) readyAgain(t record.Task) bool {
	return s.serves(t.Index) && t.State == record.TaskRunning
}

func (s *Job) service(task int) *dag.Service {
	if s.user == nil || task >= len(s.user.Spec.Tasks) {
		return nil
	}
	return s.user.Spec.Tasks[task].Service
}

// checkReplaced checks that the replica that takes the place of another has been ready on its machine.
func (c *Checker) checkReplaced(s *Job, old, cl record.Cluster) {
	if old.Leaving != "" || cl.Leaving != record.LeaveReplaced {
		return
	}
	c.Count("a replica goes for another")
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
	c.Violatef(InvHandOver, "%s is let go of, and no other replica of task %d has been ready", cl.ID, cl.Task)
}

// mostReplaced is how often a replica may be replaced once nothing fails any more: for an update, when that is stopped,
// and because it was not ready.
const mostReplaced = 5

// checkUpdated checks that replicas run what they are to when an update is said to be done.
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
			c.Violatef(InvUpdate, "the update of %s to version %d is done, and %s runs %d", s.ID, j.Spec.Version, cl.ID,
				cl.Spec)
		}
	}
}

// checkReplicas checks that replicas are there that nothing keeps, and updates end, once nothing fails any more.
func (c *Checker) checkReplicas(s *Job) {
	if s.user == nil || !s.user.Spec.HasServices() {
		return
	}
	for _, m := range s.machines {
		if task, _, ok := record.ClusterAttempt(m.Cluster); ok && m.Alive() && m.Ready {
			s.served[task] = c.Now
		}
	}
	if s.calm.IsZero() || s.Record.State != apitypes.JobRunning || s.Record.Suspended() != nil ||
		s.Record.BudgetUSD > 0 || record.IsPlaced(s.user.Spec) {
		return
	}
	up := &s.Record.Update
	if from := later(later(s.calm, up.Since), s.Record.Resumed()); up.Open() &&
		c.Now.Sub(from) > time.Duration(s.Record.Tasks+1)*comesUpWithin {
		c.Violatef(InvUpdate, "the update of %s to version %d goes on since %v: %s", s.ID, up.Spec,
			from.Sub(timeline.Beginning()).Round(time.Second), s.describe())
	}
	for i := range s.user.Spec.Tasks {
		t, known := s.Tasks[i]
		if !s.serves(i) || !known || max(t.MinPlan, s.Record.MinPlan) > s.Record.Plan.Version {
			continue
		}
		if from := s.missedSince(i); c.Now.Sub(from) > comesUpWithin {
			c.Violatef(InvReplicas, "task %d of %s is %s, and not ready since %v: %s", i, s.ID, t.State,
				from.Sub(timeline.Beginning()).Round(time.Second), s.describe())
		}
	}
}

// missedSince is since when a replica could be ready, or have been begun anew, that is not.
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

// comesUpWithin is how long a replica may take that nothing keeps: the longest that one is not tried again, a start of
// its machines with what may have to be found out first, and the time until it is ready.
const comesUpWithin = 2 * time.Hour

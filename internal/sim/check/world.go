package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func marketName(spot bool) dag.Market {
	if spot {
		return dag.MarketSpot
	}
	return dag.MarketOnDemand
}

// Outbox checks the events that a relay received: all pending ones, up to the limit.
func (c *Checker) Outbox(given []store.Event, limit int) {
	if len(given) >= limit {
		return
	}
	there := make(map[string]bool, len(given))
	for i := range given {
		there[given[i].ID] = true
	}
	lost := ""
	for id := range c.pending {
		if !there[id] && (lost == "" || id < lost) {
			lost = id
		}
	}
	if lost != "" {
		c.Violatef(InvEvent, "event %s was emitted and is not in the outbox", lost)
	}
}

// OutboxEmpty reports whether the bus has all emitted events.
func (c *Checker) OutboxEmpty() bool { return len(c.pending) == 0 }

// Alone records an event that goes to the bus without having been committed.
func (c *Checker) Alone(m *bus.Message) {
	if _, committed := c.bodies[m.ID]; !committed {
		c.emitted(&store.Event{ID: m.ID, Body: m.Body})
		delete(c.pending, m.ID)
	}
}

// Published records that the bus accepted an event for some functions.
func (c *Checker) Published(id string, functions []string) {
	c.sent[id]++
	c.routes[id] = functions
}

// Marked checks that events that leave the outbox are in the bus.
func (c *Checker) Marked(ids []string) {
	for _, id := range ids {
		if c.pending[id] && c.sent[id] == 0 {
			c.Violatef(InvEvent, "event %s left the outbox and was never published", id)
		}
		delete(c.pending, id)
	}
}

// Acked records that a function has handled an event.
func (c *Checker) Acked(queue, id string) { c.handled[queue+"#"+id] = true }

// injected reports whether the world has injected an error, or the error follows from an injected one.
func injected(err error) bool {
	var c *cloud.Error
	return errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrConflict) ||
		errors.Is(err, weather.ErrUnknown) ||
		errors.Is(err, weather.ErrNetwork) || errors.As(err, &c)
}

// Failed checks that a handler had a reason to fail.
func (c *Checker) Failed(fn string, d bus.Delivery, err error) {
	if !injected(err) {
		c.Violatef(InvErrors, "%s of %s %s: %v", fn, d.Type, d.ID, err)
	}
}

// Refused is called when a handler rejects an event permanently. The world never gives a reason for that.
func (c *Checker) Refused(fn string, d bus.Delivery, err error) {
	c.Violatef(InvErrors, "%s gives up %s %s: %v", fn, d.Type, d.ID, err)
}

// AgentFailed checks that an agent's or pool owner's call failed for a reason.
func (c *Checker) AgentFailed(what string, err error) {
	if !injected(err) {
		c.Violatef(InvErrors, "agent's %s: %v", what, err)
	}
}

// LaunchFailed records a cloud's answer to a failed launch.
func (c *Checker) LaunchFailed(spec cloud.LaunchSpec, kind cloud.Kind, err error) {
	if s := c.Jobs[record.ClusterJob(spec.Cluster)]; s != nil && kind == cloud.Capacity && s.hadMachines(spec.Cluster) {
		s.late[spec.Cluster] = err.Error()
	}
	r := refusal{kind: kind, text: err.Error(), ended: service.IsEnded(err)}
	var e *cloud.Error
	if errors.As(err, &e) {
		r.class = e.Class
	}
	c.refusals[spec.Cluster] = append(c.refusals[spec.Cluster], r)
}

// Unended records that a cluster could not be terminated because its cloud took no calls.
func (c *Checker) Unended(cluster string) {
	if s := c.Jobs[record.ClusterJob(cluster)]; s != nil {
		s.unended[cluster] = true
	}
}

// hadMachines reports whether a cluster ever had any machine.
func (s *Job) hadMachines(cluster string) bool {
	return slices.ContainsFunc(s.machines, func(m *Machine) bool { return m.Cluster == cluster })
}

// attemptOf returns the attempt of the job with a cluster, or nil.
func (s *Job) attemptOf(cluster string) *attemptState {
	i := slices.IndexFunc(s.order, func(a *attemptState) bool { return a.cluster == cluster })
	if i < 0 {
		return nil
	}
	return s.order[i]
}

func (s *Job) has(cluster string) bool {
	return s.attemptOf(cluster) != nil
}

// Launched checks that the purchase of machines was intended, and was not made before. all are the machines of the
// cluster, the new ones last.
func (c *Checker) Launched(spec cloud.LaunchSpec, all []*Machine, fresh int) {
	s := c.Jobs[record.ClusterJob(spec.Cluster)]
	if s == nil || !s.has(spec.Cluster) {
		c.Violatef(InvIntent, "%s is launched, but its attempt is missing", spec.Cluster)
		return
	}
	if len(all) > spec.Nodes {
		c.Violatef(InvCluster, "%s has %d machines, but %d were requested", spec.Cluster, len(all), spec.Nodes)
	}
	s.machines = append(s.machines, all[len(all)-fresh:]...)
}

// Unheeded is called when a machine is preempted after its cloud had announced that, and its task got no command to
// save its work. Failed attempts do not count, because their machines are kept for users; nor do the nodes of such an
// attempt that still run.
func (c *Checker) Unheeded(m *Machine) {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	failed := s != nil && s.clusters[m.Cluster].Outcome == apitypes.OutcomeFailed
	if !c.Stormy && !failed {
		c.Violatef(InvNotice, "%s %s is taken, but its agent got no command to save", m.Cluster, m.ID)
	}
}

// Assigned checks an agent's assignment, received by a call that started in a step.
func (c *Checker) Assigned(m *Machine, w wire.Work, began int) {
	if w.Command != wire.Run {
		return
	}
	cluster := m.Cluster
	s := c.Jobs[record.ClusterJob(cluster)]
	if s == nil || w.Assignment == nil || w.Assignment.Attempt != cluster {
		c.Violatef(InvAssigned, "%s gets the assignment %+v", cluster, w.Assignment)
		return
	}
	task := s.user.ByTask[w.Assignment.Task]
	if step, ok := s.finished[task]; ok && step < began {
		c.Violatef(InvFinished, "task %d of %s had succeeded but is assigned to %s", task, s.ID, m.ID)
	}
	c.chunkAssigned(s, m, w.Assignment, began)
	if over, ok := s.closed[cluster]; ok && over.step < began {
		c.Violatef(InvAssigned, "%s has finished but is assigned to %s", cluster, m.ID)
	}
	for _, p := range s.graph.Parents(task) {
		parent := &s.user.Spec.Tasks[p]
		if s.excused(int(p)) {
			continue // it has no outputs
		}
		if s.Tasks[int(p)].State != record.TaskSucceeded {
			c.Violatef(InvAssigned, "%s runs before task %s", cluster, parent.Name)
		}
		if s.user.Spec.Tasks[task].StandIn() || parent.StandIn() {
			continue // no data to stage
		}
		if slices.Contains(w.Assignment.EmptyParents, parent.Name) && s.doneWithChief(int(p)) {
			continue // it was ended with its gang before it had outputs
		}
		prefix := cmp.Or(w.Assignment.Parents[parent.Name], w.Assignment.ListedParents[parent.Name])
		if !c.outputs[At(w.Assignment.Store, prefix)] {
			c.Violatef(InvAssigned, "%s should read the outputs of %s at %q, which do not exist", cluster,
				parent.Name, prefix)
		}
	}
}

// doneWithChief reports whether the chief of a task's gang, another task, has succeeded.
func (s *Job) doneWithChief(task int) bool {
	return slices.ContainsFunc(s.user.Spec.Gang(task), func(i int) bool {
		return i != task && s.user.Spec.Chief(i) && s.Tasks[i].State == record.TaskSucceeded
	})
}

// Ended checks the budget after a machine's end.
func (c *Checker) Ended(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		c.checkBudget(s)
	}
}

// ownedWithin is the maximum time for which a machine may run that no record needs. The machine must be listed, a
// reconcile must get through, and then a terminate call. Time in which the cloud accepts no calls does not count, nor
// time in which the function that would end the machine gets no messages.
const ownedWithin = 45 * time.Minute

// lookEvery is the interval at which all machines are checked.
const lookEvery = 5 * time.Minute

// Look checks the invariants that depend on the passing of time.
func (c *Checker) Look() {
	for _, s := range c.order {
		for _, m := range s.machines {
			if m.Alive() {
				c.checkOwned(s, m)
				c.checkSuspended(s, m)
				c.checkAfterHours(m)
			}
			c.checkNoticed(s, m)
		}
		c.checkBudget(s)
		c.checkBound(s)
		c.checkReplicas(s)
		c.lookAtWorkers(s)
	}
	c.lookAtPools()
	c.checkOwed()
	c.checkUploads()
	c.After(lookEvery, c.Look)
}

func (c *Checker) checkOwned(s *Job, m *Machine) {
	cl, known := s.clusters[m.Cluster]
	if known && cl.Outcome == "" && cl.State != record.ClusterReleasing && s.Record.State != apitypes.JobEnding &&
		!s.Record.State.Finished() || s.lingers(c, m) ||
		c.sky.Outage(m.Cloud) {
		c.idle[m] = 0
		return
	}
	if c.reconcileStalled() {
		return
	}
	if c.idle[m] += lookEvery; c.idle[m] > ownedWithin {
		c.Violatef(InvOwned, "%s of %s still runs, though nothing has needed it for %v (record: %t %s %s)", m.ID,
			m.Cluster, c.idle[m], known, cl.State, cl.Outcome)
	}
}

// reconcileStalled reports whether a function that would end unneeded machines gets no messages.
func (c *Checker) reconcileStalled() bool {
	for _, fn := range []string{events.FnProvision, events.FnReconcile} {
		if stalled, _ := c.sky.Stalled(fn); stalled {
			return true
		}
	}
	return false
}

// describe returns the state of a job, for a violation.
func (s *Job) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s (%s), progress %s, plan %d, bids %d, ledger %+v", s.ID, s.Record.State, s.Record.Reason,
		s.progress.Phases, s.Record.Plan.Version, s.Record.Bids.Version, s.Ledger)
	for _, a := range s.order {
		if a.settled {
			continue
		}
		t := s.Tasks[a.task]
		fmt.Fprintf(&b, "; attempt %d of task %d (%s, try %d, plan %d, waiting %d) %q given back by %q", a.attempt,
			a.task, t.State, t.Try, t.MinPlan, s.waiting[a.task], a.Outcome, s.freed[a.attemptKey])
		if cl, ok := s.clusters[a.cluster]; ok {
			fmt.Fprintf(&b, " with a cluster %s %q %q", cl.State, cl.Outcome, cl.Command)
		}
	}
	for i := range s.Record.Tasks {
		if t, ok := s.Tasks[i]; ok && t.State != record.TaskSucceeded && s.Record.State == apitypes.JobRunning {
			fmt.Fprintf(&b, "; task %d %s try %d attempt %d plan %d waiting %d", i, t.State, t.Try, t.Attempt,
				t.MinPlan, s.waiting[i])
		}
	}
	return b.String()
}

package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func marketName(spot bool) dag.Market {
	if spot {
		return dag.MarketSpot
	}
	return dag.MarketOnDemand
}

// Outbox checks what a relay was given: all that is pending, as far as the limit goes.
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

// OutboxEmpty says whether the bus has all that was emitted.
func (c *Checker) OutboxEmpty() bool { return len(c.pending) == 0 }

// Alone notes an event that goes to the bus without having been committed.
func (c *Checker) Alone(m *bus.Message) {
	if _, committed := c.bodies[m.ID]; !committed {
		c.emitted(&store.Event{ID: m.ID, Body: m.Body})
		delete(c.pending, m.ID)
	}
}

// Published notes that the bus took an event, for some functions.
func (c *Checker) Published(id string, functions []string) {
	c.sent[id]++
	c.routes[id] = functions
}

// Marked checks that what leaves the outbox is in the bus.
func (c *Checker) Marked(ids []string) {
	for _, id := range ids {
		if c.pending[id] && c.sent[id] == 0 {
			c.Violatef(InvEvent, "event %s left the outbox and was never published", id)
		}
		delete(c.pending, id)
	}
}

// Acked notes that a function is done with an event.
func (c *Checker) Acked(queue, id string) { c.handled[queue+"#"+id] = true }

// injected says whether an error is one that the world made, or that follows from one.
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

// Refused is called when a handler gave an event up for good, for which nothing here is a reason.
func (c *Checker) Refused(fn string, d bus.Delivery, err error) {
	c.Violatef(InvErrors, "%s gives up %s %s: %v", fn, d.Type, d.ID, err)
}

// AgentFailed checks that an agent, or an owner of a pool, had a reason to be refused.
func (c *Checker) AgentFailed(what string, err error) {
	if !injected(err) {
		c.Violatef(InvErrors, "agent's %s: %v", what, err)
	}
}

// LaunchFailed notes what a cloud said of a launch.
func (c *Checker) LaunchFailed(spec cloud.LaunchSpec, kind cloud.Kind, err error) {
	if s := c.Jobs[record.ClusterJob(spec.Cluster)]; s != nil && kind == cloud.Capacity && s.made(spec.Cluster) {
		s.late[spec.Cluster] = err.Error()
	}
	c.refusals[spec.Cluster] = append(c.refusals[spec.Cluster], refusal{kind, err.Error()})
}

// Unended notes that a cluster was to be terminated while its cloud took no calls.
func (c *Checker) Unended(cluster string) {
	if s := c.Jobs[record.ClusterJob(cluster)]; s != nil {
		s.unended[cluster] = true
	}
}

// made says whether any machine of a cluster was ever there.
func (s *Job) made(cluster string) bool {
	return slices.ContainsFunc(s.machines, func(m *Machine) bool { return m.Cluster == cluster })
}

// attemptOf finds the attempt of the job that a cluster is for, nil where there is none.
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

// Launched checks that machines were meant to be bought, and not to be bought before. all are those of the same
// cluster, the fresh ones last.
func (c *Checker) Launched(spec cloud.LaunchSpec, all []*Machine, fresh int) {
	s := c.Jobs[record.ClusterJob(spec.Cluster)]
	if s == nil || !s.has(spec.Cluster) {
		c.Violatef(InvIntent, "%s is launched, of which there is no attempt", spec.Cluster)
		return
	}
	if len(all) > spec.Nodes {
		c.Violatef(InvCluster, "%s has %d machines, %d were asked for", spec.Cluster, len(all), spec.Nodes)
	}
	s.machines = append(s.machines, all[len(all)-fresh:]...)
}

// Unheeded is called when a machine is taken, of which its cloud had told, and what runs on it was not told to save. Of
// an attempt that has failed nothing goes on: its machines are kept to be looked at, those too whose own part runs yet.
func (c *Checker) Unheeded(m *Machine) {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	failed := s != nil && s.clusters[m.Cluster].Outcome == apitypes.OutcomeFailed
	if !c.Stormy && !failed {
		c.Violatef(InvNotice, "%s %s is taken, and its agent was not told to save", m.Cluster, m.ID)
	}
}

// Assigned checks what an agent is told, by a call that began in a step.
func (c *Checker) Assigned(m *Machine, w wire.Work, began int) {
	if w.Command != wire.Run {
		return
	}
	cluster := m.Cluster
	s := c.Jobs[record.ClusterJob(cluster)]
	if s == nil || w.Assignment == nil || w.Assignment.Attempt != cluster {
		c.Violatef(InvAssigned, "%s is told to run %+v", cluster, w.Assignment)
		return
	}
	task := s.user.ByTask[w.Assignment.Task]
	if step, ok := s.finished[task]; ok && step < began {
		c.Violatef(InvFinished, "task %d of %s had succeeded and is handed to %s", task, s.ID, m.ID)
	}
	if over, ok := s.closed[cluster]; ok && over.step < began {
		c.Violatef(InvAssigned, "%s is over and is handed to %s", cluster, m.ID)
	}
	for _, p := range s.graph.Parents(task) {
		parent := &s.user.Spec.Tasks[p]
		if s.Tasks[int(p)].State != record.TaskSucceeded {
			c.Violatef(InvAssigned, "%s runs before task %s", cluster, parent.Name)
		}
		if s.user.Spec.Tasks[task].StandIn() || parent.StandIn() {
			continue // there is nothing to stage
		}
		if slices.Contains(w.Assignment.Nothing, parent.Name) && s.doneWithChief(int(p)) {
			continue // it was ended with its gang, before it had anything to leave
		}
		if prefix := w.Assignment.Parents[parent.Name]; !c.outputs[At(w.Assignment.Store, prefix)] {
			c.Violatef(InvAssigned, "%s is to read the outputs of %s at %q, where there are none", cluster,
				parent.Name, prefix)
		}
	}
}

// doneWithChief says whether the chief of a task's gang, which is another, has succeeded.
func (s *Job) doneWithChief(task int) bool {
	return slices.ContainsFunc(s.user.Spec.Gang(task), func(i int) bool {
		return i != task && s.user.Spec.Chief(i) && s.Tasks[i].State == record.TaskSucceeded
	})
}

// Ended checks what a machine's end leaves to be checked.
func (c *Checker) Ended(m *Machine) {
	if s := c.Jobs[record.ClusterJob(m.Cluster)]; s != nil {
		c.checkBudget(s)
	}
}

// ownedWithin is how long a machine may run that nothing needs any more: until it is listed, the next
// reconcile that gets through, and a terminate that does. Time in which its cloud takes no calls, or a function that
// would end it no messages, does not count.
const ownedWithin = 45 * time.Minute

// lookEvery is how often all machines are looked at.
const lookEvery = 5 * time.Minute

// Look checks what only time can bring about.
func (c *Checker) Look() {
	for _, s := range c.order {
		for _, m := range s.machines {
			if m.Alive() {
				c.checkOwned(s, m)
				c.checkSuspended(s, m)
				c.checkAfterHours(m)
			}
		}
		c.checkBudget(s)
		c.checkBound(s)
		c.checkReplicas(s)
	}
	c.lookAtPools()
	c.checkUploads()
	c.After(lookEvery, c.Look)
}

func (c *Checker) checkOwned(s *Job, m *Machine) {
	cl, known := s.clusters[m.Cluster]
	if known && cl.Outcome == "" && cl.State != record.ClusterReleasing && s.Record.State != apitypes.JobEnding &&
		!s.Record.State.Over() || s.lingers(c, m) ||
		c.sky.Outage(m.Cloud) {
		c.idle[m] = 0
		return
	}
	if c.reconcileStalled() {
		return
	}
	if c.idle[m] += lookEvery; c.idle[m] > ownedWithin {
		c.Violatef(InvOwned, "%s of %s runs on, though nothing has needed it for %v (record: %t %s %s)", m.ID,
			m.Cluster, c.idle[m], known, cl.State, cl.Outcome)
	}
}

// reconcileStalled says whether a function that would end what nothing needs gets no messages.
func (c *Checker) reconcileStalled() bool {
	for _, fn := range []string{events.FnProvision, events.FnReconcile} {
		if stalled, _ := c.sky.Stalled(fn); stalled {
			return true
		}
	}
	return false
}

// describe says where a job stands, for a violation.
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

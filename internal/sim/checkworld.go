package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
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

// outbox checks what a relay was given: all that is pending, as far as the limit goes.
func (c *checker) outbox(given []store.Event, limit int) {
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
		c.w.violatef(InvEvent, "event %s was emitted and is not in the outbox", lost)
	}
}

func (c *checker) outboxEmpty() bool { return len(c.pending) == 0 }

// published notes that the bus took an event, for some functions.
func (c *checker) published(id string, functions []string) {
	c.sent[id]++
	c.routes[id] = functions
}

// marked checks that what leaves the outbox is in the bus.
func (c *checker) marked(ids []string) {
	for _, id := range ids {
		if c.pending[id] && c.sent[id] == 0 {
			c.w.violatef(InvEvent, "event %s left the outbox and was never published", id)
		}
		delete(c.pending, id)
	}
}

// acked notes that a function is done with an event.
func (c *checker) acked(queue, id string) { c.handled[queue+"#"+id] = true }

// injected says whether an error is one that the world made, or that follows from one.
func injected(err error) bool {
	var c *cloud.Error
	return errors.Is(err, store.ErrThrottled) || errors.Is(err, errUnknown) || errors.Is(err, store.ErrConflict) ||
		errors.Is(err, errNetwork) || errors.As(err, &c)
}

// failed checks that a handler had a reason to fail.
func (c *checker) failed(fn string, d bus.Delivery, err error) {
	if !injected(err) {
		c.w.violatef(InvErrors, "%s of %s %s: %v", fn, d.Type, d.ID, err)
	}
}

// refused is called when a handler gave an event up for good, for which nothing here is a reason.
func (c *checker) refused(fn string, d bus.Delivery, err error) {
	c.w.violatef(InvErrors, "%s gives up %s %s: %v", fn, d.Type, d.ID, err)
}

func (c *checker) agentFailed(what string, err error) {
	if !injected(err) {
		c.w.violatef(InvErrors, "agent's %s: %v", what, err)
	}
}

// launchFailed notes what a cloud said of a launch.
func (c *checker) launchFailed(spec cloud.LaunchSpec, kind cloud.Kind, err error) {
	c.refusals[spec.Cluster] = append(c.refusals[spec.Cluster], refusal{kind, err.Error()})
}

// launched checks that machines were meant to be bought, and not to be bought before.
func (c *checker) launched(f *fleet, spec cloud.LaunchSpec) {
	s := c.jobs[record.ClusterJob(f.name)]
	known := false
	if s != nil {
		for _, k := range s.order {
			known = known || record.ClusterID(k.job, k.task, k.attempt) == f.name
		}
	}
	if !known {
		c.w.violatef(InvIntent, "%s is launched, of which there is no attempt", f.name)
		return
	}
	alive := 0
	for _, m := range f.machines {
		if m.alive() {
			alive++
		}
	}
	if alive > spec.Nodes || len(f.machines) > spec.Nodes {
		c.w.violatef(InvCluster, "%s has %d machines, %d were asked for", f.name, len(f.machines), spec.Nodes)
	}
	s.machines = append(s.machines, f.machines[len(f.machines)-spec.Nodes:]...)
}

// assigned checks what an agent is told, by a call that began in a step.
func (c *checker) assigned(a *agent, w wire.Work, began int) {
	if w.Command != wire.Run {
		return
	}
	cluster := a.m.fleet.name
	s := c.jobs[record.ClusterJob(cluster)]
	if s == nil || w.Assignment == nil || w.Assignment.Attempt != cluster {
		c.w.violatef(InvAssigned, "%s is told to run %+v", cluster, w.Assignment)
		return
	}
	task := s.user.byTask[w.Assignment.Task]
	if step, ok := s.finished[task]; ok && step < began {
		c.w.violatef(InvFinished, "task %d of %s had succeeded and is handed to %s", task, s.id, a.m.id)
	}
	if over, ok := s.closed[cluster]; ok && over.step < began {
		c.w.violatef(InvAssigned, "%s is over and is handed to %s", cluster, a.m.id)
	}
	for _, p := range s.graph.Parents(task) {
		parent := &s.user.spec.Tasks[p]
		if s.tasks[int(p)].State != record.TaskSucceeded {
			c.w.violatef(InvAssigned, "%s runs before task %s", cluster, parent.Name)
		}
		if s.user.spec.Tasks[task].StandIn() || parent.StandIn() {
			continue // there is nothing to stage
		}
		if prefix := w.Assignment.Parents[parent.Name]; !c.w.bucket.outputs[prefix] {
			c.w.violatef(InvAssigned, "%s is to read the outputs of %s at %q, where there are none", cluster,
				parent.Name, prefix)
		}
	}
}

// ended checks what a machine's end leaves to be checked.
func (c *checker) ended(m *machine) {
	if s := c.jobs[record.ClusterJob(m.fleet.name)]; s != nil {
		c.checkBudget(s)
	}
}

// ownedWithin is how long a machine may run that nothing needs any more: until it is listed, the next
// reconcile that gets through, and a terminate that does. Time in which its cloud takes no calls, or a function that
// would end it no messages, does not count.
const ownedWithin = 45 * time.Minute

// lookEvery is how often all machines are looked at.
const lookEvery = 5 * time.Minute

// look checks what only time can bring about.
func (c *checker) look() {
	for _, s := range c.order {
		for _, m := range s.machines {
			if m.alive() {
				c.checkOwned(s, m)
			}
		}
		c.checkBudget(s)
		c.checkBound(s)
	}
	c.lookAtPools()
	c.w.after(lookEvery, c.look)
}

func (c *checker) checkOwned(s *jobState, m *machine) {
	cl, known := s.clusters[m.fleet.name]
	if known && cl.Outcome == "" && cl.State != record.ClusterReleasing && s.job.State != record.JobEnding &&
		!s.job.State.Over() ||
		c.w.sky.outage(m.cloud.name) {
		m.idle = 0
		return
	}
	if c.reconcileStalled() {
		return
	}
	if m.idle += lookEvery; m.idle > ownedWithin {
		c.w.violatef(InvOwned, "%s of %s runs on, though nothing has needed it for %v (record: %t %s %s)", m.id,
			m.fleet.name, m.idle, known, cl.State, cl.Outcome)
	}
}

// reconcileStalled says whether a function that would end what nothing needs gets no messages.
func (c *checker) reconcileStalled() bool {
	for _, fn := range []string{events.FnProvision, events.FnReconcile} {
		if stalled, _ := c.w.sky.stalled(fn); stalled {
			return true
		}
	}
	return false
}

// step checks what may not be at any moment.
func (c *checker) step() {}

// describe says where a job stands, for a violation.
func (s *jobState) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s (%s), progress %s, plan %d, bids %d, ledger %+v", s.id, s.job.State, s.job.Reason,
		s.progress.Phases, s.job.Plan.Version, s.job.Bids.Version, s.ledger)
	for _, k := range s.order {
		if s.settled[k] {
			continue
		}
		a, t := s.attempts[k], s.tasks[k.task]
		fmt.Fprintf(&b, "; attempt %d of task %d (%s, try %d, plan %d, waiting %d) %q given back by %q", k.attempt,
			k.task, t.State, t.Try, t.MinPlan, s.waiting[k.task], a.Outcome, s.freed[k])
		if cl, ok := s.clusters[record.ClusterID(k.job, k.task, k.attempt)]; ok {
			fmt.Fprintf(&b, " with a cluster %s %q %q", cl.State, cl.Outcome, cl.Command)
		}
	}
	for i := range s.job.Tasks {
		if t, ok := s.tasks[i]; ok && t.State != record.TaskSucceeded && s.job.State == record.JobRunning {
			fmt.Fprintf(&b, "; task %d %s try %d attempt %d plan %d waiting %d", i, t.State, t.Try, t.Attempt,
				t.MinPlan, s.waiting[i])
		}
	}
	return b.String()
}

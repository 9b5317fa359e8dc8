package sim

import (
	"context"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// atRest says whether nothing is under way but the schedules.
func (c *checker) atRest() bool {
	if len(c.pending) > 0 || len(c.w.bus.dead) > 0 || !c.allOver() {
		return false
	}
	for _, q := range c.w.bus.queues {
		if len(q.messages) > 0 {
			return false
		}
	}
	for _, h := range c.w.hosts {
		if len(h.processes) > 0 {
			return false
		}
	}
	return !c.machinesLeft() && c.pool.assigned() == 0
}

// allOver says whether every job that is to be submitted has been, and has ended.
func (c *checker) allOver() bool {
	for _, u := range c.w.users.jobs {
		if s := c.byName[u.spec.Name]; s == nil || !s.job.State.Over() {
			return false
		}
	}
	return true
}

func (c *checker) machinesLeft() bool {
	for _, p := range c.w.clouds {
		for _, f := range p.order {
			for _, m := range f.machines {
				if m.alive() {
					return true
				}
			}
		}
	}
	return false
}

// final checks what must be when the world has had time to come to rest.
func (c *checker) final() {
	for _, u := range c.w.users.jobs {
		s := c.byName[u.spec.Name]
		if s == nil {
			c.w.violatef(InvEnds, "job %s was never accepted", u.spec.Name)
			return
		}
		if !s.job.State.Over() {
			c.w.violate(InvEnds, s.describe()+"; bus: "+c.w.bus.depths())
		}
		c.finalJob(s)
	}
	c.rest()
}

func (c *checker) finalJob(s *jobState) {
	if len(s.clusters) > 0 {
		c.w.violatef(InvRest, "records of clusters are left: %s", s.describe())
	}
	if len(s.waiting) > 0 {
		c.w.violatef(InvRest, "%s is over and %d of its tasks wait", s.id, len(s.waiting))
	}
	if l := s.ledger; l.Outstanding != 0 || l.ReservedUSD != 0 {
		c.w.violatef(InvRest, "%s is over and has %+v", s.id, l)
	}
	c.cause(s)
	c.checkBudget(s)
	c.booked(s)
	c.deadline(s)
	if _, err := c.w.hosts[0].broker.Explain(context.Background(), s.id); err != nil {
		c.w.violatef(InvErrors, "explain %s: %v", s.id, err)
	}
}

// rest checks that nothing is left over beside the jobs.
func (c *checker) rest() {
	for _, p := range c.w.clouds {
		for _, f := range p.order {
			for _, m := range f.machines {
				if m.alive() {
					c.w.violatef(InvRest, "machine %s of %s still runs", m.id, f.name)
				}
			}
		}
	}
	if n := c.pool.assigned(); n > 0 {
		c.w.violatef(InvRest, "%d assignments to machines of pools are left", n)
	}
	if len(c.pending) > 0 {
		c.w.violatef(InvRest, "%d events are left in the outbox", len(c.pending))
	}
	if d := c.w.bus.depths(); d != "" {
		c.w.violatef(InvRest, "the bus holds %s", d)
	}
	for _, d := range c.w.bus.dead {
		c.w.violatef(InvRest, "dead letter in %s: %s %s: %s", d.Queue, d.ID, d.Type, d.Reason)
	}
	for id := range c.sent {
		c.taken(id)
	}
	for r := range c.w.store.mem.All() {
		if strings.HasPrefix(r.Key.Partition, "queue#") || r.Key.Partition == "active" {
			c.w.violatef(InvRest, "record %s", r.Key)
		}
	}
	b := c.w.hosts[0].broker
	queues, err := b.Queues(context.Background())
	if err != nil {
		c.w.violatef(InvErrors, "queues: %v", err)
	}
	for _, q := range queues {
		if q.Running != 0 || q.VCPU > rounding {
			c.w.violatef(InvRest, "queue %s is at rest with %+v", q.Name, q)
		}
	}
}

// taken checks that every function that reacts to a published event has handled it.
func (c *checker) taken(id string) {
	for _, fn := range c.routes[id] {
		if !c.handled[fn+"#"+id] {
			c.w.violatef(InvEvent, "event %s was published and %s never handled it", id, fn)
		}
	}
}

// cause checks that a job did not fail for nothing.
func (c *checker) cause(s *jobState) {
	j, u := s.job, s.user
	switch j.State {
	case record.JobCancelled:
		if !u.cancelled {
			c.w.violatef(InvCause, "%s was cancelled by nobody: %s", s.id, j.Reason)
		}
		return
	case record.JobFailed:
	default:
		return
	}
	for i, n := range u.failures {
		if n > u.spec.Tasks[i].Retries {
			return
		}
	}
	if c.w.planner.infeasible[s.name] || strings.Contains(j.Reason, "allows") && (c.bounded(j.Queue) || c.narrow(s)) {
		return
	}
	for _, k := range s.order {
		if s.attempts[k].Outcome == record.OutcomeBudget && j.BudgetUSD > 0 {
			return
		}
	}
	c.w.violatef(InvCause, "%s failed: %s", s.id, j.Reason)
}

// checkBudget compares what a job's machines have really cost with its budget.
func (c *checker) checkBudget(s *jobState) {
	if s.user == nil || s.user.spec.Budget == 0 {
		return
	}
	budget := float64(s.user.spec.Budget)
	if bill := s.bill(); bill > budget+c.overspend(s)+rounding {
		c.w.violatef(InvBudget, "%s has cost %.4f USD of a budget of %.4f (allowed beyond: %.4f; its ledger: %+v)",
			s.id, bill, budget, c.overspend(s), s.ledger)
	}
}

// overspend is by how much the budget may be passed: while the broker's own parts work, by what nobody has told it
// only. Where they fail too it may be late to stop a machine, or unable to: what one costs after its lease has ended,
// or after it was decided that it goes, is not the budget's.
func (c *checker) overspend(s *jobState) float64 {
	usd := c.untold(s)
	if !c.w.stormy {
		return usd
	}
	for _, m := range s.machines {
		end, known := s.leases[m.fleet.name]
		if over, ok := s.closed[m.fleet.name]; ok && (!known || over.at.Before(end)) {
			end, known = over.at, true
		}
		if known {
			usd += m.billSince(end)
		}
	}
	return usd
}

// deadline checks the guarantee.
func (c *checker) deadline(s *jobState) {
	j := s.job
	if !s.promised || j.State == record.JobCancelled {
		return
	}
	if j.State != record.JobSucceeded || j.Finished.After(j.Deadline) {
		c.w.violatef(InvDeadline, "%s is %s %v after a deadline that could be kept: %s", s.id, j.State,
			j.Finished.Sub(j.Deadline).Round(time.Second), j.Reason)
	}
}

package check

import (
	"context"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// AtRest reports whether nothing is in progress except the schedules.
func (c *Checker) AtRest() bool {
	if len(c.pending) > 0 || len(c.world.Dead()) > 0 || !c.AllOver() {
		return false
	}
	return !c.world.Busy() && !c.machinesLeft() && c.pool.assigned() == 0
}

// AllOver reports whether every job has been submitted and has finished.
func (c *Checker) AllOver() bool {
	for _, u := range c.wanted {
		if s := c.byName[u.Spec.Name]; s == nil || !s.Record.State.Finished() {
			return false
		}
	}
	return true
}

func (c *Checker) machinesLeft() bool {
	for m := range c.world.Machines() {
		if m.Alive() {
			return true
		}
	}
	return false
}

// Final checks the invariants that hold after the world has had time to come to rest.
func (c *Checker) Final() {
	for _, u := range c.wanted {
		s := c.byName[u.Spec.Name]
		if s == nil {
			c.Violatef(InvEnds, "job %s was never accepted", u.Spec.Name)
			return
		}
		if !s.Record.State.Finished() {
			c.Violate(InvEnds, s.describe()+c.waitsFor(s)+"; bus: "+c.world.Queued())
		}
		c.finalJob(s)
	}
	c.rest()
}

// waitsFor returns the broker's own explanation of why a job's tasks wait.
func (c *Checker) waitsFor(s *Job) (text string) {
	why, err := c.world.Broker().Views.WhyWaiting(context.Background(), s.ID)
	if err != nil {
		return "; why it waits: " + err.Error()
	}
	text = "; " + why.Reason
	for _, t := range why.Tasks {
		text += "; " + t.Task + ": " + strings.Join(t.Reasons, ", ")
	}
	return text
}

func (c *Checker) finalJob(s *Job) {
	if len(s.clusters) > 0 {
		c.Violatef(InvRest, "records of clusters remain: %s", s.describe())
	}
	if len(s.waiting) > 0 {
		c.Violatef(InvRest, "%s has finished, but %d of its tasks wait", s.ID, len(s.waiting))
	}
	if l := s.Ledger; l.Outstanding != 0 || l.ReservedUSD != 0 {
		c.Violatef(InvRest, "%s has finished with ledger %+v", s.ID, l)
	}
	if !c.needsMoreThanLimit(s.Record) {
		c.cause(s)
	}
	c.checkBudget(s)
	c.booked(s)
	c.deadline(s)
	if !s.Record.Past.Gone.IsZero() {
		return
	}
	if _, err := c.world.Broker().Views.Explain(context.Background(), s.ID); err != nil {
		c.Violatef(InvErrors, "explain %s: %v", s.ID, err)
	}
}

// rest checks that nothing remains besides the jobs.
func (c *Checker) rest() {
	for m := range c.world.Machines() {
		if m.Alive() {
			c.Violatef(InvRest, "machine %s of %s still runs", m.ID, m.Cluster)
		}
	}
	c.checkUploads()
	c.checkGone()
	c.checkUsage()
	if n := c.pool.assigned(); n > 0 {
		c.Violatef(InvRest, "%d assignments to machines of pools remain", n)
	}
	for _, key := range c.pool.order {
		if p := c.pool.parts[key]; len(p.Machines) > 0 {
			if job, worker := record.JobOfPool(p.Pool); worker {
				c.Violatef(InvRest, "%s remains in the pool of %s", p.Machines[0].ID, job)
			}
		}
	}
	if len(c.pending) > 0 {
		c.Violatef(InvRest, "%d events remain in the outbox", len(c.pending))
	}
	if d := c.world.Queued(); d != "" {
		c.Violatef(InvRest, "the bus holds %s", d)
	}
	for _, d := range c.world.Dead() {
		c.Violatef(InvRest, "dead letter in %s: %s %s: %s", d.Queue, d.ID, d.Type, d.Reason)
	}
	for id := range c.sent {
		c.taken(id)
	}
	for r := range c.store.All() {
		if strings.HasPrefix(r.Key.Partition, "queue#") || r.Key.Partition == "active" {
			c.Violatef(InvRest, "record %s remains", r.Key)
		}
	}
	b := c.world.Broker()
	queues, err := b.Views.Queues(context.Background())
	if err != nil {
		c.Violatef(InvErrors, "queues: %v", err)
	}
	for _, q := range queues {
		if q.Running != 0 || q.VCPU > Rounding || q.Month.ReservedUSD > Rounding {
			c.Violatef(InvRest, "queue %s is at rest with %+v", q.Name, q)
		}
	}
}

// taken checks that every function that reacts to a published event has handled it.
func (c *Checker) taken(id string) {
	for _, fn := range c.routes[id] {
		if !c.handled[fn+"#"+id] {
			c.Violatef(InvEvent, "event %s was published and %s never handled it", id, fn)
		}
	}
}

// scriptFailed is the exit code of the scripts that fail.
const scriptFailed = 1

// needsMoreThanLimit reports whether a job failed because it needs more than the limit of the deployment.
func (c *Checker) needsMoreThanLimit(j record.Job) bool {
	if c.cfg.Limit.None() || !strings.Contains(j.Reason, "the broker's limit is") {
		return false
	}
	c.Count("a task needs more than the limit")
	return true
}

// cause checks that a job failed for a reason.
func (c *Checker) cause(s *Job) {
	j, u := s.Record, s.user
	switch j.State {
	case apitypes.JobCancelled:
		if !u.Cancelled {
			c.Violatef(InvCause, "%s was cancelled, but not by a user: %s", s.ID, j.Reason)
		}
		return
	case apitypes.JobFailed:
	default:
		return
	}
	failed := map[*dag.Array]int{}
	for i, n := range u.Failures {
		most := u.Spec.Tasks[i].RetriesAfter(scriptFailed)
		if s.serves(i) {
			most = attempt.MaxMisses - 1
		}
		if n <= most {
			continue
		}
		a, _ := u.Spec.ArrayOf(i)
		if failed[a]++; a == nil || failed[a] > a.AllowFailures {
			return
		}
	}
	if n, told := c.noPlan[s.Name]; told {
		c.checkPatience(s, n)
		return
	}
	if j.PlanTries.Spent() { // three processes in a row ended while they planned it: see record.PlanTries
		return
	}
	if strings.Contains(j.Reason, "allows") && (c.bounded(j.Queue) || c.narrow(s)) {
		return
	}
	lost := map[int]int{} // lost attempts by task; InvHealthy checks that each was lost for a reason
	for _, a := range s.order {
		c.checkPaid(s, a)
		if a.Outcome == apitypes.OutcomeLost {
			lost[a.task]++
		}
		if lost[a.task] >= attempt.MaxSilent || c.endsJob(j, a) {
			return
		}
	}
	c.Violatef(InvCause, "%s failed: %s", s.ID, j.Reason)
}

// endsJob reports whether the outcome of one attempt is a reason for its job to fail: there is no money for it, or a
// service refuses its request as invalid.
func (c *Checker) endsJob(j record.Job, a *attemptState) bool {
	return a.Outcome == apitypes.OutcomeBudget && (j.BudgetUSD > 0 || a.Monthly) ||
		a.Outcome == apitypes.OutcomeRefused && c.invalid(a)
}

// checkBudget compares the real cost of a job's machines with its budget.
func (c *Checker) checkBudget(s *Job) {
	if s.user == nil || s.user.Spec.Budget == 0 {
		return
	}
	budget := float64(s.user.Spec.Budget)
	if bill := c.Bill(s); bill > budget+c.overspend(s)+Rounding {
		c.Violatef(InvBudget, "%s has cost %.7f USD of a budget of %.7f (allowed excess: %.7f; its ledger: %+v)",
			s.ID, bill, budget, c.overspend(s), s.Ledger)
	}
}

// overspend returns the allowed excess over the budget. If the broker's own parts work, it is only the cost that the
// broker could not know. If they fail, the broker may stop a machine late or not at all. Then the cost after the
// machine's lease, or after the decision to end it, is allowed as well.
func (c *Checker) overspend(s *Job) float64 {
	usd := c.unknownCost(s)
	if !c.Stormy {
		return usd
	}
	for _, m := range s.machines {
		end, known := s.leases[m.Cluster]
		if over, ok := s.closed[m.Cluster]; ok && (!known || over.at.Before(end)) {
			end, known = over.at, true
		}
		if known {
			usd += c.billSince(m, end.Add(-leaseSlack))
		}
	}
	return usd
}

// leaseSlack is the maximum time from the end of the money for a lease to the end of the lease. A lease counts from
// the answer to the launch, and the cloud bills from a moment before that (see the known limits in docs/roadmap.md).
const leaseSlack = time.Second

// deadline checks that a promised deadline was met.
func (c *Checker) deadline(s *Job) {
	j := s.Record
	if !s.Promised || j.State == apitypes.JobCancelled {
		return
	}
	if j.State != apitypes.JobSucceeded || j.Finished.After(j.Deadline) {
		c.Violatef(InvDeadline, "%s is %s %v after a feasible deadline: %s", s.ID, j.State,
			j.Finished.Sub(j.Deadline).Round(time.Second), j.Reason)
	}
}

package check

import (
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// queueRecord records a queue, and whether it holds more than before.
func (c *Checker) queueRecord(w *store.Write) {
	if w.Op == store.Check {
		return
	}
	old, q := c.queues[w.Key.Sort], decode[apitypes.Queue](c, w)
	c.queues[w.Key.Sort] = q
	c.monthRecord(old, q)
	for _, claim := range q.Claims {
		if !slices.Contains(old.Claims, claim) {
			c.claimed[claim.For] = promise{c.promised(claim), claim.Until}
		}
	}
	if q.Running > old.Running || q.VCPU > old.VCPU+Rounding {
		c.grown = append(c.grown, q.Name)
	}
}

// checkQuotas checks that queues whose use grows stay within their quota and those of their ancestors. A quota may be
// lowered below the current use, which takes nothing away.
func (c *Checker) checkQuotas() {
	for _, name := range c.grown {
		for above := 0; above <= len(c.queues); above++ {
			q, ok := c.queues[name]
			if !ok {
				break
			}
			running, vcpu := c.use(q)
			if q.MaxRunning > 0 && running > q.MaxRunning || q.MaxVCPU > 0 && vcpu > q.MaxVCPU+Rounding {
				c.Violatef(InvQuota, "queue %s may have %d attempts with %g vCPUs at once, but has %d with %g", name,
					q.MaxRunning, q.MaxVCPU, running, vcpu)
			}
			for resource, most := range q.Max {
				if resource == apitypes.USDPerMonth {
					continue // see checkMonths
				}
				c.Count("a quota besides vCPUs is kept")
				held := c.heldOf(q, resource)
				if resource == weather.Fast && held > 0 {
					c.Count("a quota of accelerators is kept")
				}
				if held > most+Rounding {
					c.Violatef(InvQuota, "queue %s may hold %s, but holds %g", name,
						readable.Amount(resource, most), held)
				}
			}
			name = q.Parent
		}
	}
	if len(c.grown) > 0 {
		c.checkLimit()
	}
	c.grown = c.grown[:0]
}

// checkLimit compares the machines that attempts have bought, at their maximum cost, with the limit of the
// deployment. Machines of pools are not bought.
func (c *Checker) checkLimit() {
	if c.cfg.Limit.None() {
		return
	}
	machines, usd := c.bought()
	c.Count("the limit of the deployment is kept")
	if c.exceeds(machines, usd) {
		c.Violatef(InvLimit, "%d machines for at most %g USD an hour are bought, the limit is %+v", machines, usd,
			c.cfg.Limit)
	}
}

// bought returns the number of machines that attempts have bought, and their maximum total cost in USD per hour.
func (c *Checker) bought() (machines int, usd float64) {
	for _, s := range c.order {
		for _, a := range s.order {
			if !a.settled && !a.Assigned() {
				machines += a.Nodes
				usd += max(a.Offer.USDPerHour, a.MaxUSD) * float64(a.Nodes)
			}
		}
	}
	return machines, usd
}

// exceeds reports whether machines are more than the deployment may have.
func (c *Checker) exceeds(machines int, usd float64) bool {
	limit := c.cfg.Limit
	return limit.Machines > 0 && machines > limit.Machines || limit.USDPerHour > 0 && usd > limit.USDPerHour+Rounding
}

// heldOf returns the amount of a resource that the attempts of a queue and its descendants hold, independent of the
// queue's record.
func (c *Checker) heldOf(q apitypes.Queue, resource string) float64 {
	sum := c.ownHold(q.Name, resource)
	for _, x := range c.queues {
		if x.Parent == q.Name && x.Name != q.Name {
			sum += c.heldOf(x, resource)
		}
	}
	return sum
}

// ownHold returns how much of a resource the attempts of a queue hold.
func (c *Checker) ownHold(queue, resource string) (sum float64) {
	for _, s := range c.order {
		if s.Record.Queue != queue {
			continue
		}
		for _, a := range s.order {
			if !a.settled {
				sum += a.Hold[resource]
			}
		}
	}
	return sum
}

// use returns the use of a queue and its descendants by their records.
func (c *Checker) use(q apitypes.Queue) (running int, vcpu float64) {
	running, vcpu = q.Running, q.VCPU
	for _, x := range c.queues {
		if x.Parent == q.Name && x.Name != q.Name {
			r, v := c.use(x)
			running, vcpu = running+r, vcpu+v
		}
	}
	return running, vcpu
}

// bounded reports whether a queue or an ancestor has a limit besides MaxRunning.
func (c *Checker) bounded(name string) bool {
	for range len(c.queues) {
		q := c.queues[name]
		if q.MaxVCPU > 0 || len(q.Max) > 0 || c.month.ever[name] {
			return true
		}
		name = q.Parent
	}
	return false
}

// checkGang checks that a task has all machines that it requests from the intent to buy on, and starts only when all
// of them have called.
func (c *Checker) checkGang(s *Job, old, cl record.Cluster) {
	if s.user == nil || cl.Task >= len(s.user.Spec.Tasks) {
		return
	}
	want := s.user.Spec.Tasks[cl.Task].Nodes
	if cl.Offer.Service != "" {
		want = 1 // its place
	}
	if len(cl.Nodes) != want {
		c.Violatef(InvGang, "%s has %d machines of %d", cl.ID, len(cl.Nodes), want)
	}
	if a := s.attempt(attemptKey{cl.Job, cl.Task, cl.Attempt}); a.Nodes != want || a.VCPU != cl.VCPU {
		c.Violatef(InvGang, "%s was admitted with %d machines of %d, and %g vCPUs of %g", cl.ID, a.Nodes, want,
			a.VCPU, cl.VCPU)
	}
	if cl.Command != string(wire.Run) || old.Command == cl.Command {
		return
	}
	c.gangs.begin(s, cl.Task)
	for rank, n := range cl.Nodes {
		if n.Address == "" {
			c.Violatef(InvGang, "%s gets the command to start, but machine %d has not connected", cl.ID, rank)
		}
	}
	bought := 0
	for _, m := range s.machines {
		if m.Cluster == cl.ID {
			bought++
		}
	}
	if cl.Assigned() {
		bought = len(c.assignedTo(cl.Offer.Region, cl.ID))
		if bought == 0 && c.left(cl) {
			return // a late call of an agent whose worker has ended: InvWorkerGone limits how long the attempt stays
		}
	}
	if bought != want && (bought > 0 || !c.Late) {
		c.Violatef(InvGang, "%s gets the command to start on %d machines of %d", cl.ID, bought, want)
	}
}

// left reports whether no machine of an attempt is in its pool any more.
func (c *Checker) left(cl record.Cluster) bool {
	if _, ok := record.JobOfPool(cl.Offer.Region); !ok {
		return false // machines of users' pools leave only with their tasks
	}
	part := c.partOf(cl.Job)
	return !slices.ContainsFunc(cl.Hosts, func(host string) bool {
		_, here := part.Machine(host)
		return here
	})
}

// promise is room for which others were stopped, and the time for which it is kept.
type promise struct{ since, until time.Time }

// promised returns the time of the decision to keep room free. It may be seconds before the commit. A task that
// became able to run in between was not known to the decision.
func (c *Checker) promised(claim apitypes.Claim) time.Time {
	if decided := claim.Until.Add(-c.cfg.PromisedFor()); decided.Before(c.Now) {
		return decided
	}
	return c.Now
}

// claim returns the name under which room is kept for a task, or for the whole of its gang.
func (s *Job) claim(task int) string {
	if gang := s.gangName(task); gang != "" {
		return s.ID + record.GangMark + gang
	}
	return s.ID + "/" + s.user.Spec.Tasks[task].Name
}

// checkOvertaken checks that an attempt was not admitted before another task of its queue that had waited for longer
// than OverdueAfter, is at least as urgent, and could have run as well. A gang has waited as long as its first task.
// Room that was promised before the other task was overdue or able to run stays promised.
func (c *Checker) checkOvertaken(s *Job, a apitypes.Attempt) {
	limit := c.overtakeLimit()
	for _, i := range s.gang(a.Task) {
		if a.Admitted.Sub(s.Tasks[i].ReadyAt) >= c.cfg.OverdueAfter {
			return
		}
	}
	for _, o := range c.order {
		if o.Record.Queue != s.Record.Queue || o.Record.State != apitypes.JobRunning || o.Record.BudgetUSD > 0 ||
			c.month.paid(o.Record.Queue, c.queues) || o.Record.Priority < s.Record.Priority ||
			!o.changed.Before(a.Admitted) {
			continue
		}
		for i := range o.Record.Tasks {
			if a.Admitted.Sub(o.since(i)) < limit+time.Minute || !o.waitsInTurn(i, a.Admitted) {
				continue
			}
			if o == s && (i == a.Task || s.sameGang(i, a.Task)) || c.anyBlock(a.Admitted) {
				continue
			}
			if p := c.claimed[s.claim(a.Task)]; a.Admitted.Before(p.until) &&
				(p.since.Before(o.couldGoSince(i)) || p.since.Sub(o.since(i)) < limit) {
				continue
			}
			c.Violatef(InvStarved,
				"task %d of %s is admitted to queue %s before task %d of %s, which has waited for %v", a.Task, s.ID,
				s.Record.Queue, i, o.ID, a.Admitted.Sub(o.since(i)).Round(time.Second))
		}
	}
}

// waitsInTurn reports whether a task could run and needs capacity that other tasks take. A task that shares machines
// waits for a worker instead.
func (s *Job) waitsInTurn(task int, at time.Time) bool { return !s.shares(task) && s.couldGo(task, at) }

// since returns the time at which a task started to wait. Time while its job was suspended does not count.
func (s *Job) since(task int) time.Time {
	return later(later(s.Tasks[task].ReadyAt, s.Tasks[task].NotBefore), s.Record.Resumed())
}

// couldGo reports whether a task and its whole gang have been in the queue since before a time, with a sufficiently
// new plan. A job with a deadline cannot run before the bids of its plan decide whether it waits for a better price.
func (s *Job) couldGo(task int, at time.Time) bool {
	if !s.Record.Deadline.IsZero() && s.Record.Bids.Version < s.Record.Plan.Version {
		return false
	}
	if s.Record.Suspended() != nil || s.Record.MinPlan > s.Record.Plan.Version {
		return false
	}
	if s.user.Spec.Tasks[task].Joins != "" {
		return false // it waits behind all others
	}
	if record.IsPlaced(s.user.Spec) {
		return false // it may wait until others leave its place
	}
	for _, i := range s.gang(task) {
		if s.waiting[i] == 0 || !s.entered[i].Before(at) || s.Tasks[i].MinPlan > s.Record.Plan.Version ||
			!s.Tasks[i].WaitSince.IsZero() {
			return false
		}
	}
	return s.waiting[task] != 0
}

// couldGoSince returns the time since which a task has been able to run with its whole gang: they were in their
// queue, and the plan that they waited for existed.
func (s *Job) couldGoSince(task int) (since time.Time) {
	for _, i := range s.gang(task) {
		at := s.entered[i]
		at = later(at, s.Record.Resumed())
		if max(s.Tasks[i].MinPlan, s.Record.MinPlan) == s.Record.Plan.Version && s.planned.After(at) {
			at = s.planned
		}
		if at.After(since) {
			since = at
		}
	}
	return since
}

// anyBlock reports whether any location was blocked at a time. A waiting task may wait for the end of a block.
func (c *Checker) anyBlock(at time.Time) bool {
	for r := range c.store.All() {
		if !strings.HasPrefix(r.Key.Partition, "blocks") {
			continue
		}
		if b := decode[apitypes.Block](c, &store.Write{Op: store.Put, Key: r.Key, Body: r.Body}); b.Until.After(at) {
			return true
		}
	}
	return false
}

package sim

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// queueRecord notes what a queue is now, and whether it holds more than before.
func (c *checker) queueRecord(w *store.Write) {
	if w.Op == store.Check {
		return
	}
	old, q := c.queues[w.Key.Sort], decode[record.Queue](c, w)
	c.queues[w.Key.Sort] = q
	if q.Running > old.Running || q.VCPU > old.VCPU+rounding {
		c.grown = append(c.grown, q.Name)
	}
}

// checkQuotas checks that what a queue was just given keeps its quota and those above it. Quotas that are lowered below
// what is in use take nothing away.
func (c *checker) checkQuotas() {
	for _, name := range c.grown {
		for above := 0; above <= len(c.queues); above++ {
			q, ok := c.queues[name]
			if !ok {
				break
			}
			running, vcpu := c.use(q)
			if q.MaxRunning > 0 && running > q.MaxRunning || q.MaxVCPU > 0 && vcpu > q.MaxVCPU+rounding {
				c.w.violatef(InvQuota, "queue %s may have %d attempts with %g vCPUs at once and has %d with %g", name,
					q.MaxRunning, q.MaxVCPU, running, vcpu)
			}
			name = q.Parent
		}
	}
	c.grown = c.grown[:0]
}

// use is what a queue holds with those below it.
func (c *checker) use(q record.Queue) (running int, vcpu float64) {
	running, vcpu = q.Running, q.VCPU
	for _, x := range c.queues {
		if x.Parent == q.Name && x.Name != q.Name {
			r, v := c.use(x)
			running, vcpu = running+r, vcpu+v
		}
	}
	return running, vcpu
}

// bounded says whether a queue or one above it bounds vCPUs.
func (c *checker) bounded(name string) bool {
	for range len(c.queues) {
		q := c.queues[name]
		if q.MaxVCPU > 0 {
			return true
		}
		name = q.Parent
	}
	return false
}

// checkGang checks that a task has all the machines that it asks for, from the intent to buy them on, and is told to
// begin only when all have dialled home.
func (c *checker) checkGang(s *jobState, old, cl record.Cluster) {
	if s.user == nil || cl.Task >= len(s.user.spec.Tasks) {
		return
	}
	want := s.user.spec.Tasks[cl.Task].Nodes
	if len(cl.Nodes) != want {
		c.w.violatef(InvGang, "%s has %d machines of %d", cl.ID, len(cl.Nodes), want)
	}
	if a := s.attempts[attemptKey{cl.Job, cl.Task, cl.Attempt}]; a.Nodes != want || a.VCPU != cl.VCPU {
		c.w.violatef(InvGang, "%s was admitted with %d machines of %d, and %g vCPUs of %g", cl.ID, a.Nodes, want,
			a.VCPU, cl.VCPU)
	}
	if cl.Command != string(wire.Run) || old.Command == cl.Command {
		return
	}
	c.gangs.begin(s, cl.Task)
	for rank, n := range cl.Nodes {
		if n.Address == "" {
			c.w.violatef(InvGang, "%s is told to begin and machine %d has not dialled home", cl.ID, rank)
		}
	}
	bought := 0
	for _, m := range s.machines {
		if m.fleet.name == cl.ID {
			bought++
		}
	}
	if cl.Offer.Cloud == record.PoolCloud {
		bought = len(c.assignedTo(cl.Offer.Region, cl.ID))
	}
	if bought != want {
		c.w.violatef(InvGang, "%s is told to begin on %d machines of %d", cl.ID, bought, want)
	}
}

// checkOvertaken checks that an attempt was not admitted before a task of its queue that had waited for longer than
// OverdueAfter, is at least as urgent, and could have gone as far as it itself goes. A gang has waited for as long as
// the first of it.
func (c *checker) checkOvertaken(s *jobState, a record.Attempt) {
	limit := c.w.cfg.OverdueAfter
	for _, i := range s.gang(a.Task) {
		if a.Admitted.Sub(s.tasks[i].ReadyAt) >= limit {
			return
		}
	}
	for _, o := range c.order {
		if o.job.Queue != s.job.Queue || o.job.State != record.JobRunning || o.job.BudgetUSD > 0 ||
			o.job.Priority < s.job.Priority || !o.changed.Before(a.Admitted) {
			continue
		}
		for i := range o.job.Tasks {
			t := o.tasks[i]
			if a.Admitted.Sub(t.ReadyAt) < limit+time.Minute || !o.couldGo(i, a.Admitted) {
				continue
			}
			if o == s && (i == a.Task || s.sameGang(i, a.Task)) || c.anyBlock(a.Admitted) {
				continue
			}
			c.w.violatef(InvStarved,
				"task %d of %s is admitted to queue %s before task %d of %s, which has waited for %v", a.Task, s.id,
				s.job.Queue, i, o.id, a.Admitted.Sub(t.ReadyAt).Round(time.Second))
		}
	}
}

// couldGo says whether a task, with all of its gang, has been in its queue since before a time, under a plan that does.
// One with a deadline can not go before the bids of its plan say whether it waits for a better price.
func (s *jobState) couldGo(task int, at time.Time) bool {
	if !s.job.Deadline.IsZero() && s.job.Bids.Version < s.job.Plan.Version {
		return false
	}
	for _, i := range s.gang(task) {
		if s.waiting[i] == 0 || !s.entered[i].Before(at) || s.tasks[i].MinPlan > s.job.Plan.Version ||
			!s.tasks[i].WaitSince.IsZero() {
			return false
		}
	}
	return s.waiting[task] != 0
}

// anyBlock says whether any location was blocked at a time: what waits may then wait for that.
func (c *checker) anyBlock(at time.Time) bool {
	for r := range c.w.store.mem.All() {
		if !strings.HasPrefix(r.Key.Partition, "blocks") {
			continue
		}
		if b := decode[record.Block](c, &store.Write{Op: store.Put, Body: r.Body}); b.Until.After(at) {
			return true
		}
	}
	return false
}

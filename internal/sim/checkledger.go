package sim

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// checkTasks checks that a queued task waits, while its job goes on.
func (c *checker) checkTasks(s *jobState) {
	if s.job.ID == "" || s.job.State == record.JobEnding || s.job.State.Over() {
		return
	}
	for i := range s.job.Tasks {
		// One that schedule has not taken note of (Try) has its announcement on the way.
		if t, ok := s.tasks[i]; ok && t.State == record.TaskQueued && t.Try > 0 && s.waiting[i] == 0 {
			c.w.violatef(InvQueued, "task %d of %s is queued and has no entry", i, s.id)
		}
	}
}

// rounding is what sums of money and vCPUs may differ by.
const rounding = 1e-6

// checkLedger compares a ledger with the attempts that were admitted and are not settled.
func (c *checker) checkLedger(s *jobState) {
	open, reserved, spent := 0, 0.0, 0.0
	for _, k := range s.order {
		a := s.attempts[k]
		if s.settled[k] {
			spent += a.USD
			continue
		}
		open++
		if cl, ok := s.clusters[record.ClusterID(k.job, k.task, k.attempt)]; ok {
			reserved += cl.ReservedUSD
		} else {
			reserved += a.ReservedUSD
		}
	}
	l := s.ledger
	if l.Outstanding != open {
		c.w.violatef(InvLedger, "%s counts %d attempts outstanding, there are %d", s.id, l.Outstanding, open)
	}
	if math.Abs(l.ReservedUSD-reserved) > rounding || math.Abs(l.SpentUSD-spent) > rounding {
		c.w.violatef(InvLedger, "%s has set aside %.6f USD and spent %.6f; its attempts say %.6f and %.6f", s.id,
			l.ReservedUSD, l.SpentUSD, reserved, spent)
	}
}

// checkQueue compares a queue's usage with the attempts that hold some.
func (c *checker) checkQueue(q record.Queue) {
	running, vcpu := 0, 0.0
	for _, s := range c.order {
		if s.job.Queue != q.Name {
			continue
		}
		running += s.ledger.Outstanding
		for _, k := range s.order {
			if !s.settled[k] {
				vcpu += s.attempts[k].VCPU
			}
		}
	}
	if q.Running != running || math.Abs(q.VCPU-vcpu) > rounding {
		c.w.violatef(InvQuota, "queue %s counts %d attempts with %g vCPUs, there are %d with %g", q.Name, q.Running,
			q.VCPU, running, vcpu)
	}
}

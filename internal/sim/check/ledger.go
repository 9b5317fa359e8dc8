package check

import (
	"math"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// checkTasks checks that a queued task has a queue entry while its job runs.
func (c *Checker) checkTasks(s *Job) {
	if s.Record.ID == "" || s.Record.State == apitypes.JobEnding || s.Record.State.Finished() {
		return
	}
	for i := range s.Tasks {
		// If schedule has not yet recorded the task (Try), its announcement is on the way.
		if t, ok := s.Tasks[i]; ok && t.State == record.TaskQueued && t.Try > 0 && s.waiting[i] == 0 {
			c.Violatef(InvQueued, "task %d of %s is queued but has no entry", i, s.ID)
		}
	}
}

// Rounding is the tolerance for sums of money and vCPUs.
const Rounding = 1e-6

// checkLedger compares a ledger with the admitted attempts that are not settled.
func (c *Checker) checkLedger(s *Job) {
	open, reserved, spent := 0, 0.0, 0.0
	for _, a := range s.order {
		if a.settled {
			spent += a.USD
			continue
		}
		open++
		if cl, ok := s.clusters[a.cluster]; ok {
			reserved += cl.ReservedUSD
		} else {
			reserved += a.ReservedUSD
		}
	}
	l := s.Ledger
	if s.rests && (open > 0 || s.Record.State != apitypes.JobRunning) {
		c.Violatef(InvAsleep, "%s rests, but is %s and has %d attempts outstanding", s.ID, s.Record.State, open)
	}
	if l.Outstanding != open {
		c.Violatef(InvLedger, "%s counts %d outstanding attempts, but there are %d", s.ID, l.Outstanding, open)
	}
	if math.Abs(l.ReservedUSD-reserved) > Rounding || math.Abs(l.SpentUSD-spent) > Rounding {
		c.Violatef(InvLedger, "%s has reserved %.6f USD and spent %.6f, but its attempts %.6f and %.6f", s.ID,
			l.ReservedUSD, l.SpentUSD, reserved, spent)
	}
}

// slots returns the number of running tasks as which an attempt counts in its queue. An attempt on a worker counts as
// part of its worker.
func slots(a *attemptState) int {
	if _, worker := record.JobOfPool(a.Offer.Region); worker && a.Assigned() {
		return 0
	}
	return 1
}

// checkQueue compares a queue's usage with the attempts that hold resources.
func (c *Checker) checkQueue(q apitypes.Queue) {
	running, workers, vcpu := 0, 0, 0.0
	for _, s := range c.order {
		if s.Record.Queue != q.Name {
			continue
		}
		for _, a := range s.order {
			if !a.settled {
				vcpu += a.VCPU
				running += slots(a)
				if s.isWorker(a.task) {
					workers++
				}
			}
		}
	}
	if q.Running != running || math.Abs(q.VCPU-vcpu) > Rounding {
		c.Violatef(InvQuota, "queue %s counts %d attempts with %g vCPUs, but there are %d with %g", q.Name, q.Running,
			q.VCPU, running, vcpu)
	}
	if q.Workers != workers {
		c.Violatef(InvQuota, "queue %s counts %d workers, but there are %d", q.Name, q.Workers, workers)
	}
	for resource := range q.Max {
		if resource == apitypes.USDPerMonth {
			continue // see checkMonths
		}
		if held := c.ownHold(q.Name, resource); math.Abs(q.Use[resource]-held) > Rounding {
			c.Violatef(InvQuota, "queue %s counts %g of %s, but its attempts hold %g", q.Name, q.Use[resource],
				resource, held)
		}
	}
}

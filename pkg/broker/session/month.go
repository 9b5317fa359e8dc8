package session

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// A queue's month's budget is kept like a job's: an attempt is admitted when what is left pays for it, what it may cost
// is set aside, and comes back when it is settled at what it did cost. What is spent and set aside is in the records of
// queues, which the transaction that admits writes or holds: no two sessions give out the same money.

// money is what something that waits is expected to cost, and what is set aside for it at least.
type money struct{ expected, full float64 }

func (m money) plus(by money) money { return money{m.expected + by.expected, m.full + by.full} }

// purses are the month's budgets that a queue's jobs are paid from.
func (s *Session) purses(queue string) []record.Purse {
	if !s.monthly {
		return nil
	}
	return record.Purses(s.tree, queue, s.u.Now)
}

// costs is what a task that waits costs in the pool that it is placed in, or where it is planned. For one on spot
// enough is set aside for a price that rises by a quarter: more is bid, and set aside, where there is more (bidWithin).
func (s *Session) costs(a *admission) money {
	if p := a.pool; s.monthly && p != nil {
		rate := p.offer.USDPerHour * float64(a.nodes)
		return money{rate * p.hours, rate * s.lasting(p.hours)}
	}
	return s.plannedCosts(a.side, a.waiting.Task)
}

// plannedCosts is what a task that waits costs where it is planned.
func (s *Session) plannedCosts(of *side, task int) (m money) {
	if !s.monthly {
		return m
	}
	m.expected = of.plan.TaskUSD[task]
	if c := of.plan.Of(task); c != nil {
		m.full = leastRate(c) * float64(of.spec.Tasks[task].Nodes) * s.lasting(of.plan.TaskHours[task])
	}
	return m
}

// lasting is for how long money is set aside for a task's machines that are to work so many hours.
func (s *Session) lasting(hours float64) float64 {
	return hours*reserveSlack + record.Hours(s.Config.Overhead)
}

// leastRate is the least to set aside for an hour of a machine, USD.
func leastRate(c *record.Planned) float64 {
	rate := c.Offer.USDPerHour
	if !c.Offer.Spot {
		return rate
	}
	return min(max(c.OnDemandUSD, rate), rate*reserveSlack)
}

// short is the month's budget of a queue, or of one above it, that has too little left for something; nil where none
// has.
func (s *Session) short(queue string, m money) *record.Purse {
	for _, p := range s.purses(queue) {
		if p.Asks(m.expected, m.full) > p.LeftUSD()+record.CentsEps {
			return &p
		}
	}
	return nil
}

// over is the month's budget that is less than what something is expected to cost, whatever is left of it; nil where
// none is.
func (s *Session) over(queue string, m money) *record.Purse {
	for _, p := range s.purses(queue) {
		if m.expected > p.MostUSD+record.CentsEps {
			return &p
		}
	}
	return nil
}

// shortOf is short of a task that waits.
func (s *Session) shortOf(a *admission) *record.Purse {
	return s.short(a.job.Queue, s.costs(a))
}

// costsOf is what all of some tasks that go together cost.
func (s *Session) costsOf(members []*admission) (sum money) {
	for _, m := range members {
		sum = sum.plus(s.costs(m))
	}
	return sum
}

// tooMuch says by what a task is more than its queue, or one above it, allows at all; nil where it is not.
func (s *Session) tooMuch(a *admission) *excess {
	if b := s.beyond(a.queue, a.needs()); b != nil {
		return b
	}
	return s.dear(a.queue, s.costs(a))
}

// dear says by what something costs more than the month's budget of a queue, or of one above it.
func (s *Session) dear(q *apitypes.Queue, m money) *excess {
	p := s.over(q.Name, m)
	if p == nil {
		return nil
	}
	return &excess{s.queues[p.Queue], apitypes.USDPerMonth, m.expected, p.MostUSD}
}

// fullOf is what is to be set aside for those of a task's gang that are still to be admitted, itself among them.
func (s *Session) fullOf(a *admission) (full float64) {
	for _, m := range a.with.members {
		if m.task.State == record.TaskQueued {
			full += s.costs(m).full
		}
	}
	return full
}

// shareOf is a task's part of what the month's budgets have left, from 0 to 1: what others of its gang need, which are
// admitted after it, is left to them.
func (s *Session) shareOf(a *admission) float64 {
	if full := s.fullOf(a); len(a.with.members) > 1 && full > 0 {
		return min(s.costs(a).full/full, 1)
	}
	return 1
}

// bidWithin bounds a bid for a spot machine by what the month's budgets have left, so that no price breaks them.
func (s *Session) bidWithin(a *admission, bidUSD float64) float64 {
	purses := s.purses(a.job.Queue)
	if len(purses) == 0 {
		return bidUSD
	}
	full, least := s.fullOf(a), leastRate(a.plan.Of(a.waiting.Task))
	for _, p := range purses {
		if full > 0 {
			bidUSD = min(bidUSD, max(least, least*p.LeftUSD()/full))
		}
	}
	return bidUSD
}

// scarce says that a month's budget has less left than what is to be set aside for all of some tasks.
func (s *Session) scarce(t *together) bool {
	full := s.costsOf(t.members).full
	return slices.ContainsFunc(s.purses(t.members[0].job.Queue), func(p record.Purse) bool {
		return full > p.LeftUSD()+record.CentsEps
	})
}

// leaveDear has tasks leave pools for which more is to be set aside than where they are planned, and says whether any
// does. A machine of a pool may be quicker and cost more an hour: it is the hours around the work that are dear then.
func (s *Session) leaveDear(bound []*admission) (any bool) {
	for _, a := range bound {
		if a.pool != nil && s.costs(a).full > s.plannedCosts(a.side, a.waiting.Task).full+record.CentsEps {
			a.pool, any = nil, true
		}
	}
	return any
}

// tellShort says that a month's budget keeps something.
func tellShort(p *record.Purse, m money) string {
	return fmt.Sprintf("it needs %s USD and %s", record.TellUSD(p.Asks(m.expected, m.full)), p.Tell())
}

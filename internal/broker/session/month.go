package session

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The monthly budget of a queue is enforced like a job's budget. An attempt is admitted if the remaining money pays
// for it. The maximum cost is reserved, and the difference to the actual cost is returned when the attempt is
// settled. The records of queues have the spent and the reserved money. An admission writes or holds these records,
// so no two sessions spend the same money.

// money is the expected cost of a waiting task and the amount that must be reserved for it, in USD.
type money struct{ expected, full float64 }

func (m money) plus(by money) money { return money{m.expected + by.expected, m.full + by.full} }

// purses returns the monthly budgets that pay for the jobs of a queue.
func (s *Session) purses(queue string) []record.Purse {
	if !s.monthly {
		return nil
	}
	return record.Purses(s.tree, queue, s.u.Now)
}

// costs returns the cost of a waiting task in its pool, or at its planned location. For a spot machine, the reserved
// money covers a price that is 25% higher. Bids and reservations are higher if there is more money (see bidWithin).
func (s *Session) costs(a *admission) money {
	if p := a.pool; s.monthly && p != nil {
		rate := p.offer.USDPerHour * float64(a.nodes)
		return money{rate * p.hours, rate * s.reservedHours(p.hours)}
	}
	return s.plannedCosts(a.side, a.waiting.Task)
}

// plannedCosts is the cost of a waiting task at its planned location.
func (s *Session) plannedCosts(of *side, task int) (m money) {
	if !s.monthly {
		return m
	}
	m.expected = of.plan.TaskUSD[task]
	if c := of.plan.Of(task); c != nil {
		nodes := float64(record.NodesOn(&of.spec.Tasks[task], c))
		m.full = leastRate(c) * nodes * s.reservedHours(of.plan.TaskHours[task])
	}
	return m
}

// reservedHours returns the number of hours for which money is reserved, if the task's machines work for the given
// hours.
func (s *Session) reservedHours(hours float64) float64 {
	return hours*reserveSlack + record.Hours(s.Config.Overhead)
}

// leastRate returns the minimum to reserve for an hour of a machine, in USD.
func leastRate(c *record.Planned) float64 {
	rate := c.Offer.USDPerHour
	if !c.Offer.Spot {
		return rate
	}
	return min(max(c.OnDemandUSD, rate), rate*reserveSlack)
}

// shortPurse returns a monthly budget, of the queue or one above it, that has too little left for m. It returns nil
// if there is none.
func (s *Session) shortPurse(queue string, m money) *record.Purse {
	for _, p := range s.purses(queue) {
		if p.Required(m.expected, m.full) > p.LeftUSD()+record.CentsEps {
			return &p
		}
	}
	return nil
}

// overPurse returns a monthly budget that is below the expected cost of m even if nothing is spent yet. It returns
// nil if there is none.
func (s *Session) overPurse(queue string, m money) *record.Purse {
	for _, p := range s.purses(queue) {
		if m.expected > p.MostUSD+record.CentsEps {
			return &p
		}
	}
	return nil
}

// shortOf is short for a waiting task.
func (s *Session) shortOf(a *admission) *record.Purse {
	return s.shortPurse(a.job.Queue, s.costs(a))
}

// costsOf returns the total cost of tasks that are admitted together.
func (s *Session) costsOf(members []*admission) (sum money) {
	for _, m := range members {
		sum = sum.plus(s.costs(m))
	}
	return sum
}

// tooMuch returns a text about a limit that a task exceeds even when nothing is in use: of the queue, of one above it
// or of the deployment, with the needed and the allowed amount. It returns "" if there is none.
func (s *Session) tooMuch(a *admission) string {
	if b := s.beyond(a.queue, a.needs()); b != nil {
		return b.message()
	}
	if b := s.overMonthlyBudget(a.queue, s.costs(a)); b != nil {
		return b.message()
	}
	return s.beyondLimit(a)
}

// overMonthlyBudget returns the monthly budget, of the queue or one above it, that m exceeds. It returns nil if there
// is none.
func (s *Session) overMonthlyBudget(q *apitypes.Queue, m money) *excess {
	p := s.overPurse(q.Name, m)
	if p == nil {
		return nil
	}
	return &excess{s.queues[p.Queue], apitypes.USDPerMonth, m.expected, p.MostUSD}
}

// fullOf returns the USD to reserve for all members of a task's gang that are not admitted yet, including the task
// itself.
func (s *Session) fullOf(a *admission) (full float64) {
	for _, m := range a.with.members {
		if m.task.State == record.TaskQueued {
			full += s.costs(m).full
		}
	}
	return full
}

// shareOf returns the part of the remaining monthly budgets that a task may use, from 0 to 1. The rest is for members
// of its gang that are admitted after it.
func (s *Session) shareOf(a *admission) float64 {
	if full := s.fullOf(a); len(a.with.members) > 1 && full > 0 {
		return min(s.costs(a).full/full, 1)
	}
	return 1
}

// bidWithin limits the bid for a spot machine by the remaining monthly budgets, so that no price exceeds them.
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

// scarce reports whether a monthly budget has less left than must be reserved for all of the tasks.
func (s *Session) scarce(t *together) bool {
	full := s.costsOf(t.members).full
	return slices.ContainsFunc(s.purses(t.members[0].job.Queue), func(p record.Purse) bool {
		return full > p.LeftUSD()+record.CentsEps
	})
}

// leaveExpensivePools removes tasks from pools in which more money must be reserved for them than at their planned
// location. It reports whether it removed any. This can happen with faster pool machines that cost more per hour,
// because the reserved overhead hours are then more expensive.
func (s *Session) leaveExpensivePools(bound []*admission) (any bool) {
	for _, a := range bound {
		if a.pool != nil && s.costs(a).full > s.plannedCosts(a.side, a.waiting.Task).full+record.CentsEps {
			a.pool, any = nil, true
		}
	}
	return any
}

// shortMessage describes a monthly budget that is too small for a task.
func shortMessage(p *record.Purse, m money) string {
	return fmt.Sprintf("it needs %s USD and %s", readable.USD(p.Required(m.expected, m.full)), p.Describe())
}

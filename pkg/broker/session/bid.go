package session

import (
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// bidFor is the most to pay for an hour of one spot machine of a task that is admitted: the on-demand price. Of a job
// with a budget it is no more than what is left of that can pay for, shared among what is left to do by what that is
// expected to cost: so that no price breaks it.
func (s *Session) bidFor(a admission) (float64, error) {
	c := a.plan.Of(a.waiting.Task)
	if a.pool != nil || !c.Offer.Spot {
		return 0, nil
	}
	rate, most := c.Offer.USDPerHour, c.OnDemandUSD
	if a.job.BudgetUSD <= 0 || most <= rate {
		return max(most, rate), nil
	}
	progress, _, err := book.Get[record.Progress](s.u, record.ProgressKey(a.job.ID))
	if err != nil {
		return 0, err
	}
	rest := 0.0
	for i, phase := range progress.Phases {
		if phase == record.PhaseWaiting || phase == record.PhaseReady {
			rest += a.plan.TaskUSD[i]
		}
	}
	share := reserveSlack
	if rest > 0 {
		share = max(share, (a.job.BudgetUSD-a.ledger.SpentUSD)/rest/reserveSlack)
	}
	return min(most, rate*share), nil
}

package session

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// judgePrice says whether a task that may wait does. One that has waited is planned anew where its plan is not for the
// price of now: on demand when the price has come down, on spot when it has not.
func (s *Session) judgePrice(a *admission) verdict {
	usd, wait := a.price.Wait(s.u.Now)
	if wait {
		return verdictWait
	}
	chosen := !math.IsInf(usd, 1) // else there is no time left to be choosy
	cheap := chosen && a.price.USD <= usd*(1+1e-6)
	if a.price.Spot && !cheap && (chosen || !a.task.WaitSince.IsZero()) || !a.price.Spot && cheap {
		return verdictReplan
	}
	return verdictAdmit
}

// waits leaves a task in its queue for a better price, and writes down since when.
func (s *Session) waits(a *admission) (d record.Decision) {
	if a.task.WaitSince.IsZero() {
		a.task.WaitSince, a.task.WaitUSD = s.u.Now, a.price.USD
		d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	}
	return d
}

// priceOf is what a task may wait for; nil where a pool would take it, or where those of its job that may wait would
// have to go one after another, of which By knows nothing.
func (s *Session) priceOf(a *admission) (*bid.Waiting, error) {
	price, err := bid.LoadWaiting(s.u, s.Config, a.job, a.task)
	if err != nil || price == nil {
		return nil, err
	}
	pools, err := s.seen()
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if w, err := s.want(&pools[i], a); err != nil || w != nil {
			return nil, err
		}
	}
	if !s.hasRoom(a.queue, price.Others, a.needs()) {
		return nil, nil
	}
	return price, nil
}

// hasRoom says whether the quota of a queue has room for so many tasks at once. What queues above it have is not looked
// at: where one of them has a quota there is none for certain.
func (s *Session) hasRoom(q *apitypes.Queue, tasks int, needs apitypes.Amounts) bool {
	above := s.queues[q.Parent]
	all := apitypes.Amounts{}
	for name, v := range needs {
		all[name] = float64(tasks) * v
	}
	_, lacks := all.Exceeds(q.Most(), q.Used())
	return (above == nil || !s.bounded(above)) && (q.MaxRunning == 0 || q.Running+tasks <= q.MaxRunning) && !lacks
}

// bidFor is the most to pay for an hour of one spot machine of a task that is admitted: the on-demand price, as far as
// the month's budget goes. Of a job with a budget it is no more than what is left of that can pay for, shared among
// what is left to do by what that is expected to cost: so that no price breaks it.
func (s *Session) bidFor(a *admission) (float64, error) {
	c := a.plan.Of(a.waiting.Task)
	if a.pool != nil || !c.Offer.Spot {
		return 0, nil
	}
	rate, most := c.Offer.USDPerHour, c.OnDemandUSD
	if a.job.BudgetUSD <= 0 || most <= rate {
		return s.bidWithin(a, max(most, rate)), nil
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
	return s.bidWithin(a, min(most, rate*share)), nil
}

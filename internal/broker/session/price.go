package session

import (
	"math"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// judgePrice decides whether a task waits for a better price. After a wait, the task is replanned if its plan does
// not match the current price: an on-demand plan when the spot price is low enough, or a spot plan when it is not.
func (s *Session) judgePrice(a *admission) verdict {
	usd, wait := a.price.Wait(s.u.Now)
	if wait {
		return verdictWait
	}
	chosen := !math.IsInf(usd, 1) // otherwise there is no time left to wait for a better price
	cheap := chosen && a.price.USD <= usd*(1+1e-6)
	if a.price.Spot && !cheap && (chosen || !a.task.WaitSince.IsZero()) || !a.price.Spot && cheap {
		return verdictReplan
	}
	return verdictAdmit
}

// waitForPrice leaves a task in its queue for a better price, and records the start of the wait.
func (s *Session) waitForPrice(a *admission) (d record.Decision) {
	if a.task.WaitSince.IsZero() {
		a.task.WaitSince, a.task.WaitUSD = s.u.Now, a.price.USD
		d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	}
	return d
}

// priceOf returns the price for which a task may wait. It returns nil if a pool could take the task. It also returns
// nil if the waiting tasks of its job could not all run at once, because the calculation of the wait assumes that
// they can.
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

// hasRoom reports whether the quota of a queue has room for a number of tasks at once. If a queue above it has a
// quota, it returns false, because it does not check that quota.
func (s *Session) hasRoom(q *apitypes.Queue, tasks int, needs apitypes.Amounts) bool {
	above := s.queues[q.Parent]
	all := apitypes.Amounts{}
	for name, v := range needs {
		all[name] = float64(tasks) * v
	}
	_, lacks := all.Exceeds(q.Limits(), q.Used())
	return (above == nil || !s.bounded(above)) && (q.MaxRunning == 0 || q.Running+tasks <= q.MaxRunning) && !lacks
}

// bidFor returns the maximum price of an hour of one spot machine for an admitted task, in USD: the on-demand price,
// limited by the task's maxUSDPerHour, the limit of the deployment and the monthly budgets. If the job has a budget,
// the remaining budget is divided among the remaining tasks in proportion to their expected cost, so that no price
// exceeds the budget. The minimum time that the cloud bills must also fit into the budget at the maximum price.
func (s *Session) bidFor(a *admission) (float64, error) {
	c := a.plan.Of(a.waiting.Task)
	if a.pool != nil || !c.Offer.Spot {
		return 0, nil
	}
	rate, most := c.Offer.USDPerHour, c.OnDemandUSD
	if limit := attempt.MaxUSDPerHour(&a.spec.Tasks[a.waiting.Task], c.Offer); limit > 0 {
		most = min(most, limit)
	}
	most = s.bidUnderLimit(a, most)
	if a.job.BudgetUSD <= 0 || most <= rate {
		return s.bidWithin(a, max(most, rate)), nil
	}
	progress, _, err := recordcache.Get[record.Progress](s.u, record.ProgressKey(a.job.ID))
	if err != nil {
		return 0, err
	}
	rest := 0.0
	for i, phase := range progress.Phases {
		if record.IsOpen(phase) {
			rest += a.plan.OwnUSD(i)
		}
	}
	share := reserveSlack
	if rest > 0 {
		share = max(share, (a.job.BudgetUSD-a.ledger.SpentUSD)/rest/reserveSlack)
	}
	most = min(most, rate*share)
	if minimum := hardware.BillingOf(c.Offer.Cloud).Minimum.Hours() * float64(a.nodes); minimum > 0 {
		most = min(most, max(rate, a.left()/minimum)) // a lease cannot end the bill before this time
	}
	return s.bidWithin(a, most), nil
}

package session

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// judgePrice says whether a task that may wait does. One that has waited is planned anew where its plan is not for the
// price of now: on demand when the price has come down, on spot when it has not.
func (s *Session) judgePrice(a admission) verdict {
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
func (s *Session) waits(a admission) (d record.Decision) {
	if a.task.WaitSince.IsZero() {
		a.task.WaitSince, a.task.WaitUSD = s.u.Now, a.price.USD
		d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	}
	return d
}

// priceOf is what a task may wait for; nil where a pool would take it.
func (s *Session) priceOf(a admission) (*bid.Waiting, error) {
	price, err := bid.LoadWaiting(s.u, s.cfg, a.job, a.task)
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
	return price, nil
}

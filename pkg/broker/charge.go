package broker

import (
	"time"
)

// A cluster is charged by segments. A spot machine costs the market's price of the moment, so its cluster's record has what was paid until a
// moment and the price since. tick, which learns of prices, writes it when that of a market in use has changed, and release settles by it.

// rate is what an hour of one machine costs now, USD: what was planned, until the market has been seen to say otherwise.
func (cl *Cluster) rate() float64 {
	if cl.PricedAt.IsZero() {
		return cl.Offer.USDPerHour
	}
	return cl.RateUSD
}

// ceiling is what an hour of one machine can cost at most, USD: no cloud charges more than was bid.
func (cl *Cluster) ceiling() float64 {
	if !cl.Offer.Spot {
		return cl.rate()
	}
	return max(cl.MaxUSD, cl.rate())
}

// chargedFrom is since when a cluster is charged: since it was bought. One that may have been bought is charged to a job with a
// budget since the intent, so that what nobody saw cannot overspend it.
func (cl *Cluster) chargedFrom() (from time.Time, ok bool) {
	if !cl.Launched.IsZero() {
		return cl.Launched, true
	}
	return cl.Intended, !cl.LeaseUntil.IsZero()
}

// pricedSince is since when the price is that of now.
func (cl *Cluster) pricedSince() time.Time {
	if !cl.PricedAt.IsZero() {
		return cl.PricedAt
	}
	from, _ := cl.chargedFrom()
	return from
}

// charged is what the machines have cost until a moment, USD. What nobody saw may have cost as much as was bid.
func (cl *Cluster) charged(until time.Time) float64 {
	if _, ok := cl.chargedFrom(); !ok {
		return 0
	}
	rate := cl.rate()
	if cl.Launched.IsZero() {
		rate = cl.ceiling()
	}
	return cl.PaidUSD + hours(max(until.Sub(cl.pricedSince()), 0))*rate*float64(len(cl.Nodes))
}

// reprice takes in what the market says: what was paid until its price changed, and the price since. It reports whether there was anything new.
func (cl *Cluster) reprice(m MarketRecord, surcharge float64, now time.Time) bool {
	if !cl.Offer.Spot || !(m.USD > 0) || cl.Launched.IsZero() {
		return false
	}
	usd := m.USD + surcharge
	if cl.MaxUSD > 0 {
		usd = min(usd, cl.MaxUSD)
	}
	if usd == cl.rate() {
		return false
	}
	at := cl.pricedSince()
	if m.At.After(at) {
		at = m.At
	}
	if at.After(now) {
		at = now
	}
	cl.PaidUSD, cl.PricedAt, cl.RateUSD = cl.charged(at), at, usd
	return true
}

// looksUnseen is for how many looks a price may have been another one before the broker hears of it.
const looksUnseen = 2

// covered is until when what was set aside for a cluster lasts for certain: even if its price has been the highest since the last looks, and stays so.
func (cl *Cluster) covered(tickEvery time.Duration, now time.Time) time.Time {
	nodes := float64(len(cl.Nodes))
	most := cl.ceiling() * nodes
	unseen := min(max(now.Sub(cl.pricedSince()), 0), looksUnseen*tickEvery)
	spent := cl.charged(now)
	if !cl.Launched.IsZero() {
		spent += hours(unseen) * (cl.ceiling() - cl.rate()) * nodes
	}
	return now.Add(duration((cl.ReservedUSD - spent) / most))
}

// expected is what of what was set aside for a cluster it is expected to use: it was set aside at the most that an hour may cost, and what one that is
// over leaves comes back soon.
func (cl *Cluster) expected(overhead time.Duration, now time.Time) float64 {
	most := cl.ceiling()
	switch {
	case cl.Outcome != "" || cl.State == ClusterReleasing || cl.State == ClusterDoomed:
		return min(cl.ReservedUSD, cl.charged(now.Add(overhead/2)))
	case most <= 0:
		return cl.ReservedUSD
	}
	return cl.ReservedUSD * cl.rate() / most
}

// bidFor is the most to pay for an hour of one spot machine of a task that is admitted: the on-demand price. Of a job with a
// budget it is no more than what is left of that can pay for, shared among what is left to do by what that is expected to cost: so that no price breaks it.
func (s *scheduling) bidFor(a admission) (float64, error) {
	c := a.plan.Of(a.waiting.Task)
	if a.pool != nil || !c.Offer.Spot {
		return 0, nil
	}
	rate, most := c.Offer.USDPerHour, c.OnDemandUSD
	if a.job.BudgetUSD <= 0 || most <= rate {
		return max(most, rate), nil
	}
	progress, _, err := get[Progress](s.u, progressKey(a.job.ID))
	if err != nil {
		return 0, err
	}
	rest := 0.0
	for i, phase := range progress.Phases {
		if phase == PhaseWaiting || phase == PhaseReady {
			rest += a.plan.TaskUSD[i]
		}
	}
	share := reserveSlack
	if rest > 0 {
		share = max(share, (a.job.BudgetUSD-a.ledger.SpentUSD)/rest/reserveSlack)
	}
	return min(most, rate*share), nil
}

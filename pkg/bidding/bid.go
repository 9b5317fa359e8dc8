package bidding

import "sort"

// Bid returns the maximum price worth paying for the next step on a spot machine, in USD, if the market is in state s
// and the given work and time are left before the step (WCSSI, equation 8): the bid b that minimises the expectation
// of equation 7. It is 0 if no price is acceptable, and at most the on-demand price. A bid of the on-demand price
// means that the step should run on demand if spot costs more.
//
// The model's states must be price levels in rising order. Between two levels the bid is where continuing and waiting
// cost the same.
func (t *Table) Bid(work, time float64, s int, on Holding) float64 {
	if work <= 0 || !t.mayRisk(work, time) {
		return 0
	}
	n := t.levels
	gain := make([]float64, n)
	usd := make([]float64, n)
	for q := range n {
		usd[q] = float64(t.model.spotUSD(q, int(time)))
		gain[q] = t.worth(work, time, q, on)
	}
	best, sum, level := 0.0, 0.0, -1
	for q := range n {
		diff := min(usd[q], t.model.OnDemandUSD) - gain[q]
		sum += float64(t.model.P[s*n+q]) * diff
		if sum < best-1e-12 || sum <= best+1e-12 && diff <= 0 && level == q-1 {
			best, level = sum, q
		}
	}
	if level < 0 {
		// The cheapest level is too expensive, but a price below it may be acceptable.
		return min(usd[0], gain[0], t.model.OnDemandUSD)
	}
	if level == n-1 {
		return min(max(usd[level], gain[level]), t.model.OnDemandUSD)
	}
	// The bid is where worth and price are equal, between the last acceptable level and the next.
	a, b := gain[level]-usd[level], gain[level+1]-usd[level+1]
	if a <= 0 || b >= 0 {
		return min(max(usd[level], gain[level]), t.model.OnDemandUSD)
	}
	f := a / (a - b)
	return min(usd[level]+f*(usd[level+1]-usd[level]), t.model.OnDemandUSD)
}

// worth returns by how much a step on a spot machine, at state q, lowers the remaining cost compared to a step of
// waiting.
func (t *Table) worth(work, time float64, q int, on Holding) float64 {
	idle := t.model.ReleaseUSD + t.Cost(work, time-1, q, OnNothing)
	return idle - t.Cost(work-t.progress(on, OnSpot), time-1, q, OnSpot)
}

// progress returns the work that a step does when it changes from one holding to another.
func (t *Table) progress(from, to Holding) float64 {
	if to == OnNothing {
		return 0
	}
	if from != to {
		return 1 - t.model.Restart
	}
	return 1
}

// mayRisk reports whether the deadline can still be met after a whole step is lost.
func (t *Table) mayRisk(work, time float64) bool {
	return t.feasible(work, time-1, OnNothing)
}

// Choice is the decision for the next step and its expected cost to the end.
type Choice struct {
	On  Holding
	USD float64
	// Wait, Spot and OnDemand are the expected costs of the alternatives, +Inf if they are not possible.
	Wait, Spot, OnDemand float64
}

// Choose decides how to continue a step that has begun. The market is in state q at a price of usd per step (+Inf if no
// machine is available), and the task ran on the given holding before, which is OnNothing if that machine was lost. The
// lowest expected cost wins. If costs are equal, the task stays where it is.
func (t *Table) Choose(work, time float64, q int, usd float64, on Holding) Choice {
	od := t.model.OnDemandUSD
	inf := t.model.ReleaseUSD + missedCost64
	c := Choice{Wait: inf, Spot: inf, On: OnDemand}
	c.OnDemand = od + t.costAfter(work, time, q, on, OnDemand)
	if t.mayRisk(work, time) {
		c.Wait = t.model.ReleaseUSD + t.costAfter(work, time, q, on, OnNothing)
	}
	if usd < missedCost64 && (t.model.Fallback || t.mayRisk(work, time)) {
		c.Spot = usd + t.costAfter(work, time, q, on, OnSpot)
	}
	c.USD = c.OnDemand
	if c.Wait < c.USD {
		c.On, c.USD = OnNothing, c.Wait
	}
	if c.Spot < c.USD || c.Spot == c.USD && on == OnSpot {
		c.On, c.USD = OnSpot, c.Spot
	}
	return c
}

const missedCost64 = float64(missedCost)

// costAfter returns the remaining cost after a step that changes from one holding to another.
func (t *Table) costAfter(work, time float64, q int, from, to Holding) float64 {
	return t.CostAt(work-t.progress(from, to), time-1, q, to)
}

// CostAt is Cost, but returns a large finite number if the deadline cannot be met.
func (t *Table) CostAt(work, time float64, q int, on Holding) float64 {
	return min(t.Cost(work, time, q, on), missedCost64)
}

// StateOf returns the lowest state whose price is at least usd, or the last. The states must be price levels in
// rising order.
func (t *Table) StateOf(usd float64) int {
	return min(sort.Search(t.levels, func(q int) bool { return float64(t.model.USD[q]) >= usd }), t.levels-1)
}

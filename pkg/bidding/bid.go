package bidding

import "sort"

// Bid is the most worth paying for the next step on a spot machine, in USD, when the market is in state s, and work and
// time are what is left before the step (WCSSI, equation 8): the bid b for which the expectation of equation 7 is
// least. It is 0 where no price would do, and never above the on-demand price: at that bid it is worth going on on
// demand when spot costs more.
//
// It needs a model whose states are price levels in rising order. Between two levels the bid is where going on and
// waiting cost the same.
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
		// The cheapest level is too dear; what is cheaper still may do.
		return min(usd[0], gain[0], t.model.OnDemandUSD)
	}
	if level == n-1 {
		return min(max(usd[level], gain[level]), t.model.OnDemandUSD)
	}
	// Between the last level worth it and the first not, worth and price meet.
	a, b := gain[level]-usd[level], gain[level+1]-usd[level+1]
	if a <= 0 || b >= 0 {
		return min(max(usd[level], gain[level]), t.model.OnDemandUSD)
	}
	f := a / (a - b)
	return min(usd[level]+f*(usd[level+1]-usd[level]), t.model.OnDemandUSD)
}

// worth is by how much a step on a spot machine, found in state q, lowers the cost of the rest against a step of
// waiting.
func (t *Table) worth(work, time float64, q int, on Holding) float64 {
	idle := t.model.ReleaseUSD + t.Cost(work, time-1, q, OnNothing)
	return idle - t.Cost(work-t.progress(on, OnSpot), time-1, q, OnSpot)
}

// progress is how much work a step does that goes from one holding to another.
func (t *Table) progress(from, to Holding) float64 {
	if to == OnNothing {
		return 0
	}
	if from != to {
		return 1 - t.model.Restart
	}
	return 1
}

// mayRisk says whether the loss of a whole step leaves the deadline within reach.
func (t *Table) mayRisk(work, time float64) bool {
	return t.feasible(work, time-1, OnNothing)
}

// Choice is what to do with the next step, and what it is expected to cost to the end.
type Choice struct {
	On  Holding
	USD float64
	// Wait, Spot and OnDemand are the expected costs of the alternatives, +Inf where they are not open.
	Wait, Spot, OnDemand float64
}

// Choose decides what to do with a step when it has begun: the market is in state q at a price of usd per step (+Inf
// where no machine is to be had), and the task runs on what it ran on before, unless that is gone. The least expected
// cost wins, what goes on as it is before what moves.
func (t *Table) Choose(work, time float64, q int, usd float64, on Holding) Choice {
	od := t.model.OnDemandUSD
	inf := t.model.ReleaseUSD + never64
	c := Choice{Wait: inf, Spot: inf, On: OnDemand}
	c.OnDemand = od + t.costAfter(work, time, q, on, OnDemand)
	if t.mayRisk(work, time) {
		c.Wait = t.model.ReleaseUSD + t.costAfter(work, time, q, on, OnNothing)
	}
	if usd < never64 && (t.model.Fallback || t.mayRisk(work, time)) {
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

const never64 = float64(never)

// costAfter is the cost of the rest after a step that ends on something.
func (t *Table) costAfter(work, time float64, q int, from, to Holding) float64 {
	return t.CostAt(work-t.progress(from, to), time-1, q, to)
}

// CostAt is Cost, with never for what cannot be done.
func (t *Table) CostAt(work, time float64, q int, on Holding) float64 {
	return min(t.Cost(work, time, q, on), never64)
}

// StateOf is the state whose price is nearest from above, for models whose states are price levels in rising order.
func (t *Table) StateOf(usd float64) int {
	return min(sort.Search(t.levels, func(q int) bool { return float64(t.model.USD[q]) >= usd }), t.levels-1)
}

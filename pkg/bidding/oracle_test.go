package bidding_test

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// oracle is the recursion by work and time, directly from the paper (equations 1 to 8), with a restart as additional
// work. It shares no code with the table, which counts by slack.
type oracle struct {
	m    bidding.Model
	memo map[[4]int]float64
}

// value returns the lowest expected cost after a step in state s.
func (o *oracle) value(work, left, s int, on bidding.Holding) float64 {
	if work <= 0 {
		return 0
	}
	restart := int(o.m.Restart)
	slack := left - work
	if o.m.Fallback && slack < 0 {
		work, slack = left, 0 // the excess has been paid
	}
	if restart == 0 {
		on = bidding.OnNothing
		if slack == 0 && !o.m.Fallback {
			return float64(work) * o.m.OnDemandUSD
		}
	}
	if slack < 0 || !o.m.Fallback && on != bidding.OnDemand && slack < restart {
		return math.Inf(1)
	}
	key := [4]int{work, left, s, int(on)}
	if v, ok := o.memo[key]; ok {
		return v
	}
	n := o.m.Levels()
	sum := 0.0
	for q := range n {
		sum += float64(o.m.P[s*n+q]) * o.best(work, left, q, on, restart)
	}
	o.memo[key] = sum
	return sum
}

func (o *oracle) best(work, left, q int, on bidding.Holding, restart int) float64 {
	again := func(to bidding.Holding) int {
		if to == on {
			return 0
		}
		return restart
	}
	usd := float64(o.m.USD[q])
	if o.m.Fallback && restart > 0 {
		return o.fallback(work, left, q, on, restart)
	}
	if restart == 0 {
		usd = math.Min(usd, o.m.OnDemandUSD)
	}
	best := math.Inf(1)
	if left-work >= again(bidding.OnDemand) {
		best = o.m.OnDemandUSD + o.value(work-1+again(bidding.OnDemand), left-1, q, bidding.OnDemand)
	}
	risk := 1 + restart
	if o.m.Fallback && restart == 0 {
		best = math.Min(best, usd+o.value(work-1, left-1, q, bidding.OnSpot))
	}
	if left-work < risk {
		return best
	}
	best = math.Min(best, o.m.ReleaseUSD+o.value(work, left-1, q, bidding.OnNothing))
	if !math.IsInf(usd, 1) {
		best = math.Min(best, usd+o.value(work-1+again(bidding.OnSpot), left-1, q, bidding.OnSpot))
	}
	return best
}

// fallback is best for models with a fallback, in which a high price never loses a step. It is enough that a start on
// demand is possible after the step and its own start. A start that takes longer than the slack is charged, and does
// not happen.
func (o *oracle) fallback(work, left, q int, on bidding.Holding, restart int) float64 {
	usd, slack := float64(o.m.USD[q]), left-work
	best := o.m.OnDemandUSD*float64(1+max(0, restart-slack)) + o.value(work-1+restart, left-1, q, bidding.OnDemand)
	if slack > restart {
		best = min(best, o.m.ReleaseUSD+o.value(work, left-1, q, bidding.OnNothing))
	}
	if slack+1 > 2*restart {
		best = min(best, usd+o.value(work-1+restart, left-1, q, bidding.OnSpot))
	}
	switch {
	case on == bidding.OnDemand:
		best = min(best, o.m.OnDemandUSD+o.value(work-1, left-1, q, bidding.OnDemand))
	case on == bidding.OnSpot && slack+1 > restart:
		best = min(best, usd+o.value(work-1, left-1, q, bidding.OnSpot))
	}
	return best
}

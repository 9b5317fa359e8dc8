package backtest

import (
	"math"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Moment is one hour of a run: the bid, the spot price, the kind of machine on which the task ran, and the work done
// by its end.
type Moment struct {
	Hour    int             `json:"hour"` // since the start
	SpotUSD float64         `json:"spotUSD"`
	BidUSD  float64         `json:"bidUSD"`
	On      bidding.Holding `json:"on"`
	Done    float64         `json:"done"` // hours of work saved by the end of the hour
	Taken   bool            `json:"taken,omitempty"`
}

// Timeline is the course of a run.
type Timeline struct {
	Moments []Moment
	USD     float64 // total cost
}

// replay runs one task from a start (an index into the prices) until it finishes or reaches its deadline.
func replay(b policy.Bidder, hourly market.Hourly, start int, onDemand float64, o BidOptions, kin []market.Past,
	t *Timeline) (outcome, error) {
	var out outcome
	prices, first := hourly.USD, market.WeekHour(hourly.Start)
	h := policy.Hour{Work: o.Work, Restart: o.Restart}
	for i := range o.Deadline {
		if h.Work <= 1e-9 {
			break
		}
		h.Start, h.Left, h.History = first+start+i, o.Deadline-i, prices[:start+i]
		h.Kin = before(kin, h.Start)
		order, err := b.Order(h)
		if err != nil {
			return out, err
		}
		spot := prices[start+i]
		on, usd := bidding.OnNothing, 0.0
		switch {
		case spot <= order.MaxUSD:
			on, usd = bidding.OnSpot, spot
		case order.OnDemand:
			on, usd = bidding.OnDemand, onDemand
		}
		taken := h.On == bidding.OnSpot && order.MaxUSD > 0 && spot > order.MaxUSD
		if taken {
			out.interruptions++
		}
		out.usd += usd
		if on != bidding.OnNothing {
			h.Work -= progress(h.On, on, o.Restart)
		}
		h.On = on
		t.Moments = append(t.Moments, Moment{
			Hour: i, SpotUSD: spot, BidUSD: order.MaxUSD, On: on, Done: o.Work - max(h.Work, 0), Taken: taken,
		})
	}
	out.missed = h.Work > 1e-9
	return out, nil
}

// before returns the parts of the pasts before an hour.
func before(kin []market.Past, hour int) []market.Past {
	var out []market.Past
	for _, k := range kin {
		if n := min(hour-k.First, len(k.USD)); n > 0 {
			out = append(out, market.Past{USD: k.USD[:n], First: k.First, CapUSD: k.CapUSD})
		}
	}
	return out
}

// progress returns the work of an hour on one holding after an hour on another.
func progress(before, now bidding.Holding, restart float64) float64 {
	if before == now {
		return 1
	}
	return 1 - restart
}

// optimalBidCost returns the lowest possible cost of a run that knows all prices in advance. It is a dynamic program
// over the hours, the minutes of work done and the kind of machine on which the task runs. The result is a lower
// bound for every policy because the run does not have to keep time in reserve.
func optimalBidCost(prices []float64, onDemand, work, restart float64) float64 {
	minutes, lost := int(math.Ceil(work*60-1e-6)), int(math.Round(restart*60))
	unit := 60 // minutes of work in one cell
	if lost > 0 || minutes%60 != 0 {
		unit = 1
	}
	hour, cells := 60/unit, minutes/unit
	const kinds = 3
	cost, next := make([]float64, (cells+1)*kinds), make([]float64, (cells+1)*kinds)
	for i := range cost {
		cost[i] = math.Inf(1)
	}
	cost[0] = 0
	for _, spot := range prices {
		for i := range next {
			next[i] = math.Inf(1)
		}
		usd := [kinds]float64{bidding.OnSpot: spot, bidding.OnDemand: onDemand}
		for at, paid := range cost {
			if math.IsInf(paid, 1) {
				continue
			}
			done, from := at/kinds, at%kinds
			if done == cells {
				next[at] = min(next[at], paid)
				continue
			}
			idle := done * kinds
			next[idle] = min(next[idle], paid)
			for _, on := range [...]bidding.Holding{bidding.OnSpot, bidding.OnDemand} {
				did := hour
				if int(on) != from {
					did -= lost
				}
				to := min(done+did, cells)*kinds + int(on)
				next[to] = min(next[to], paid+usd[on])
			}
		}
		cost, next = next, cost
	}
	return min(cost[cells*kinds], cost[cells*kinds+1], cost[cells*kinds+2])
}

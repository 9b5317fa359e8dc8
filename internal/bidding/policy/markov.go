package policy

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Learning returns the options with which Markov learns a market. Recent days count most, because prices stay in one
// regime for some days and then change to another. There is a factor for each hour of the day and for weekends. The
// values were chosen, or confirmed, on the first half of the AWS record of 2016; back-tests replay the other half.
// The result hardly changes if a value is halved or doubled.
func Learning() market.ChainOptions {
	return market.ChainOptions{Levels: 12, HalfLife: 72, Smoothing: 1, Daily: true, Weekly: true}
}

// relearn is the number of hours after which Markov learns the market again.
const relearn = 12

// Markov is our own policy: the paper's recursion over chains that are learned online from the market and the other
// zones of its type. It adds on-demand capacity for single hours, bids between the levels, and restarts.
type Markov struct {
	ctx      context.Context
	onDemand float64
	learned  int // index of the hour in which the chain was learned
	mixture  *bidding.Mixture
	informed []float64 // if set, learn from these prices instead of the history
}

// NewMarkov returns a bidder for one run.
func NewMarkov(ctx context.Context, onDemandUSD float64) *Markov {
	return &Markov{ctx: ctx, onDemand: onDemandUSD, learned: math.MinInt / 2}
}

// NewInformed returns a bidder that has learned its chain from all prices, including future ones. It knows how likely
// each price follows each other, but nothing else about the future. It is not a usable policy: its cost shows what
// perfect knowledge of a plain chain's probabilities is worth.
func NewInformed(ctx context.Context, onDemandUSD float64, all []float64) *Markov {
	p := NewMarkov(ctx, onDemandUSD)
	p.informed = all
	return p
}

// Order bids the price from the tables.
func (p *Markov) Order(h Hour) (Order, error) {
	if len(h.History) == 0 {
		return Order{OnDemand: true}, nil // without history there is nothing to decide by
	}
	if h.mustLeave() && h.Restart <= 0 {
		// The price of an hour holds to its end, so an available hour of spot is as safe as one on demand.
		return Order{MaxUSD: p.onDemand, OnDemand: true}, nil
	}
	if !p.startable(h) {
		return Order{OnDemand: true}, nil
	}
	if h.Start-p.learned >= relearn {
		if err := p.learn(h); err != nil {
			return Order{}, err
		}
	}
	bid, onDemand := p.mixture.Bid(h.Work, float64(h.Left), h.Start, h.last(p.onDemand), h.On)
	return Order{MaxUSD: bid, OnDemand: onDemand || h.mustLeave()}, nil
}

// startable reports whether there is still time for a start on demand after an hour on spot.
func (p *Markov) startable(h Hour) bool {
	starts := 2.0
	if h.On == bidding.OnSpot {
		starts = 1
	}
	return float64(h.Left)-h.Work >= starts*h.Restart-1e-9
}

// learn learns the chains from everything known and builds their tables up to the deadline.
func (p *Markov) learn(h Hour) (err error) {
	p.learned = h.Start
	var chains []*market.Chain
	if p.informed == nil {
		own := market.Past{USD: h.History, First: h.Start - len(h.History), CapUSD: p.onDemand}
		for _, trend := range trends() {
			o := Learning()
			o.Trend = trend
			r := market.Relate(own, h.Kin, o)
			for _, levels := range levelCounts() {
				chains = append(chains, r.Chain(levels))
			}
		}
	} else {
		chains = append(chains, market.Learn(p.informed, market.ChainOptions{Smoothing: 1}))
	}
	p.mixture, err = bidding.NewMixture(p.ctx, chains, p.onDemand, h.Restart, int(math.Ceil(h.Work-1e-9)), h.Left,
		h.Start+h.Left)
	return err
}

// trends returns the half-lives in hours of the trailing price levels of the chains. The short one follows a market
// shift within a day; the long one treats a week of high prices as temporary.
func trends() []float64 { return []float64{24, 216} }

// levelCounts returns the numbers of levels of the chains that Markov mixes. They roughly double, from two (low and
// high) to as many as some weeks of hourly prices can fill.
func levelCounts() []int { return []int{2, 3, 6, 12} }

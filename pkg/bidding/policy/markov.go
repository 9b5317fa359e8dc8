package policy

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Learning is how Markov learns a market: with the last days counting most, as prices keep to a regime for some days
// and then to another, and with a factor for each hour of the day and for weekends. The figures were chosen, or found
// to hold, by runs within the first half of the record of AWS in 2016, which is not the half that back-tests replay;
// the result hardly changes between half and double of each.
func Learning() market.ChainOptions {
	return market.ChainOptions{Levels: 12, HalfLife: 72, Smoothing: 1, Daily: true, Weekly: true}
}

// relearn is after how many hours Markov learns the market anew.
const relearn = 12

// Markov is ours: the paper's recursion over chains that are learned online from the market and the other zones of its
// type, with on-demand capacity as an action for single hours, bids between the levels, and restarts.
type Markov struct {
	ctx      context.Context
	onDemand float64
	learned  int // index of the hour in which the chain was learned
	mixture  *bidding.Mixture
	informed []float64 // what to learn from instead of the past
}

// NewMarkov makes a bidder for one run.
func NewMarkov(ctx context.Context, onDemandUSD float64) *Markov {
	return &Markov{ctx: ctx, onDemand: onDemandUSD, learned: math.MinInt / 2}
}

// NewInformed makes a bidder that has learned its chain from all prices, those to come as well: it knows how likely
// each price follows each, and no more of the future. It is no policy; what it costs says what knowing the odds of a
// plain chain is worth.
func NewInformed(ctx context.Context, onDemandUSD float64, all []float64) *Markov {
	p := NewMarkov(ctx, onDemandUSD)
	p.informed = all
	return p
}

// Order bids what the table says.
func (p *Markov) Order(h Hour) (Order, error) {
	if len(h.History) == 0 {
		return Order{OnDemand: true}, nil // nothing is known; a quote of the market would be needed
	}
	if h.mustLeave() && h.Restart <= 0 {
		// An hour of spot that can be had at all is as sure as one on demand: its price holds to its end.
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

// startable says whether after an hour on spot there would still be time for a start on demand.
func (p *Markov) startable(h Hour) bool {
	starts := 2.0
	if h.On == bidding.OnSpot {
		starts = 1
	}
	return float64(h.Left)-h.Work >= starts*h.Restart-1e-9
}

// learn learns the chains from all that is known, and builds their tables to the deadline.
func (p *Markov) learn(h Hour) (err error) {
	p.learned = h.Start
	var chains []*market.Chain
	if p.informed == nil {
		own := market.Past{USD: h.History, First: h.Start - len(h.History), CapUSD: p.onDemand}
		for _, trend := range trends() {
			o := Learning()
			o.Trend = trend
			r := market.Relate(own, h.Kin, o)
			for _, levels := range mixed() {
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

// trends are the half-lives in hours of the trailing levels that the chains are relative to: one that follows a turn of
// the market in a day, and one that takes a week of it for a spell.
func trends() []float64 { return []float64{24, 216} }

// mixed are the levels of the chains that Markov mixes: about doubling, from the fewest that tell dear from cheap to as
// many as some weeks of hours can fill.
func mixed() []int { return []int{2, 3, 6, 12} }

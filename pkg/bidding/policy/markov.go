package policy

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Learning is how Markov learns a market: with the last days counting most, as prices keep to a regime for some days and then
// to another, and with a factor for each hour of the day. The figures were found on the markets of AWS in 2016; the result hardly
// changes between half and double of each.
func Learning() market.ChainOptions {
	return market.ChainOptions{Levels: 12, HalfLife: 72, Smoothing: 1, Daily: true}
}

// relearn is after how many hours Markov learns the market anew.
const relearn = 12

// Markov is ours: the paper's recursion over a chain that is learned online, with on-demand capacity as an action for single hours, bids
// between the levels, and restarts.
type Markov struct {
	ctx      context.Context
	onDemand float64
	learned  int // index of the hour in which the chain was learned
	chain    *market.Chain
	table    *bidding.Table
	informed []float64 // what to learn from instead of the past
}

// NewMarkov makes a bidder for one run.
func NewMarkov(ctx context.Context, onDemandUSD float64) *Markov {
	return &Markov{ctx: ctx, onDemand: onDemandUSD, learned: math.MinInt / 2}
}

// NewInformed makes a bidder that has learned its chain from all prices, those to come as well: it knows how likely each price follows
// each, and no more of the future. It is no policy; what it costs is about the least that a chain can be worth.
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
	s := p.chain.Level(h.last(p.onDemand), h.Start+23)
	if h.Restart > 0 {
		bid, onDemand := p.table.BidOr(h.Work, float64(h.Left), s, h.On)
		return Order{MaxUSD: bid, OnDemand: onDemand || h.mustLeave()}, nil
	}
	bid := p.table.Bid(h.Work, float64(h.Left), s, h.On)
	return Order{MaxUSD: bid, OnDemand: bid >= p.onDemand}, nil
}

// startable says whether after an hour on spot there would still be time for a start on demand.
func (p *Markov) startable(h Hour) bool {
	starts := 2.0
	if h.On == bidding.OnSpot {
		starts = 1
	}
	return float64(h.Left)-h.Work >= starts*h.Restart-1e-9
}

// learn learns the chain from all that is known, and builds the table to the deadline.
func (p *Markov) learn(h Hour) (err error) {
	p.learned = h.Start
	if p.informed == nil {
		p.chain = market.Learn(h.History, Learning())
	} else {
		p.chain = market.Learn(p.informed, market.ChainOptions{Smoothing: 1})
	}
	m := bidding.PriceModel(p.chain, p.onDemand, h.Restart)
	m.Fallback = true
	m.Factor = make([]float32, h.Left+1)
	for left := range m.Factor {
		hour := h.Start + h.Left - left
		m.Factor[left] = float32(p.chain.Daily[hour%24])
	}
	p.table, err = bidding.Build(p.ctx, m, int(math.Ceil(h.Work-1e-9)), h.Left)
	return err
}

package policy

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// BFRC bids for one task as the paper does (WCSSI): a plain chain of 24 levels over the whole history before the run,
// the bid of equation 8, a deadline of at most 1.5 times the compute time, and on-demand machines for the rest once
// work equals time.
type BFRC struct {
	OnDemandUSD float64
	Chain       *market.Chain
	Table       *bidding.Table
	spare       int // unused hours of the deadline
}

// MaxStretch is the maximum time of a task as a multiple of its compute time (WCSSI, with figure 5).
const MaxStretch = 1.5

// NewBFRC learns the chain and builds the table for runs of work hours.
func NewBFRC(ctx context.Context, history []float64, work, deadline int, onDemandUSD float64) (*BFRC, error) {
	chain := market.Learn(history, market.ChainOptions{})
	own := min(deadline, int(math.Floor(MaxStretch*float64(work))))
	table, err := bidding.Build(ctx, bidding.PriceModel(chain, onDemandUSD, 0), work, own)
	return &BFRC{OnDemandUSD: onDemandUSD, Chain: chain, Table: table, spare: deadline - own}, err
}

// Run returns the bidder for one run.
func (p *BFRC) Run() *BFRC {
	run := *p
	return &run
}

// Order bids the table's bid within the task's own deadline.
func (p *BFRC) Order(h Hour) (Order, error) {
	left := h.Left - p.spare
	if h.mustLeave() || h.Work+h.Restart >= float64(left) {
		return Order{OnDemand: true}, nil
	}
	s := p.Chain.Level(h.last(p.OnDemandUSD), 0)
	return Order{MaxUSD: p.Table.Bid(h.Work, float64(left), s, h.On)}, nil
}

package policy

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// PlainPlace is the paper's method (WCSSI) for markets without bids: a chain of two states, with and without
// machines, a deadline of at most 1.5 times the compute time, and on-demand once work equals time. It ignores the
// cost of starts, except for the slack they take.
type PlainPlace struct {
	ctx         context.Context
	spare, step float64
	table       *bidding.Table
	left        bool
}

// NewPlainPlace returns a chooser for one run of the given hours of work.
func NewPlainPlace(ctx context.Context, work, deadline float64) *PlainPlace {
	return &PlainPlace{ctx: ctx, spare: max(0, deadline-MaxStretch*work)}
}

// Choose returns the place with the lowest expected cost to the end.
func (p *PlainPlace) Choose(v View) (Place, error) {
	own := v
	own.Left -= p.spare
	if p.left = p.left || own.pointOfNoReturn(); p.left {
		return Place{On: bidding.OnDemand}, nil
	}
	if p.table == nil {
		if err := p.learn(own); err != nil {
			return Place{}, err
		}
	}
	z := v.anyUp()
	q, usd := 1, math.Inf(1)
	if z >= 0 {
		q, usd = 0, v.SpotUSD*p.step
	}
	// The table does not know starts, so the lookup uses the slack that is left after a start on demand.
	choice := p.table.Choose(v.Work/p.step, max((own.Left-v.Changeover)/p.step, v.Work/p.step), q, usd, v.On)
	if choice.On == bidding.OnSpot {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	return Place{On: choice.On}, nil
}

func (p *PlainPlace) learn(v View) (err error) {
	p.step = max(v.Step, v.Left/maxSteps, 0.25)
	lost, back := v.Zones.Any.MeanRate(true), v.Zones.Any.MeanRate(false)
	down, up := 1-math.Exp(-lost*p.step), 1-math.Exp(-back*p.step)
	m := bidding.Model{
		USD:         []float32{float32(v.SpotUSD * p.step), float32(math.Inf(1))},
		P:           []float32{float32(1 - down), float32(down), float32(up), float32(1 - up)},
		OnDemandUSD: v.OnDemandUSD * p.step,
	}
	work := int(math.Ceil(v.Work / p.step))
	p.table, err = bidding.BuildRun(p.ctx, m, work, max(work, int(v.Left/p.step)))
	return err
}

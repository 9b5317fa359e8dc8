package planner

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// priceSteps is into how many steps a run is cut to follow its price.
const priceSteps = 24

// spotQuote is what to expect of a task's work on a spot offer: its time, with interruptions, and the mean price of an
// hour until then by the chain of the market.
func (b *builder) spotQuote(t *dag.Task, m *match, work float64) (q bidding.Quote, usd float64, ok bool) {
	run := bidding.Run{
		Hours: work, RestartHours: b.p.opt.Restart.Hours(), PreemptionsPerHour: m.rate, Nodes: max(t.Nodes, 1),
		ReactHours: b.p.opt.TickEvery.Hours(),
	}
	if t.Checkpoint != nil || t.StandIn() {
		every := 15 * time.Minute
		if t.Checkpoint != nil && t.Checkpoint.Every > 0 {
			every = t.Checkpoint.Every
		}
		run.CheckpointHours = every.Hours()
	}
	if q, ok = bidding.Spot(run); !ok {
		return q, 0, false
	}
	return q, b.meanUSD(m, q.Held), true
}

// meanUSD is the mean price of the next hours on a spot offer; where its price has not been seen to change, that of
// now.
func (b *builder) meanUSD(m *match, hours float64) float64 {
	rec := m.changes
	if rec == nil || !(hours > 0) || !(rec.USD > 0) {
		return m.usd
	}
	chain := rec.Prices.Chain(hours/priceSteps, rec.USD, m.OnDemandUSD)
	mean := chain.MeanAhead(chain.Level(rec.USD, 0), priceSteps, math.Max(m.OnDemandUSD, rec.USD))
	// The level's mean price stands for the price of now; what counts is how it goes on from there.
	return mean/chain.USD[chain.Level(rec.USD, 0)]*rec.USD + m.SurchargeUSD
}

package workflow

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// markovMethod is our own method. It takes the time of each task from BFRC's schedule, which uses the slack of the
// whole workflow. In every hour a task uses the type with the lowest expected cost to its end, by the recursion over
// each type's chain, or waits.
type markovMethod struct {
	w        *Workflow
	schedule *schedule
}

// relearn is the number of hours after which chains are learned again.
const relearn = 24

// knownMarket is the knowledge about a type at some hour.
type knownMarket struct {
	chain *market.Chain
	table *bidding.Table
	// steady is the expected cost of a number of consecutive hours from each level, on demand if spot is more
	// expensive: steady[hours][level].
	steady [][]float64
}

// runs computes steady.
func (l *knownMarket) runs(onDemandUSD float64) {
	n := len(l.chain.USD)
	l.steady = [][]float64{make([]float64, n)}
	for c := 1; c <= tableWork; c++ {
		row := make([]float64, n)
		for s := range row {
			for q, usd := range l.chain.USD {
				row[s] += float64(l.chain.P[s*n+q]) * (min(usd, onDemandUSD) + l.steady[c-1][q])
			}
		}
		l.steady = append(l.steady, row)
	}
}

// through returns the expected cost of the given hours without waiting.
func (l *knownMarket) through(hours float64, s int) float64 {
	f := max(1, hours/tableWork)
	hours /= f
	c := min(int(hours), tableWork-1)
	part := hours - float64(c)
	return f * ((1-part)*l.steady[c][s] + part*l.steady[c+1][s])
}

// tableWork and tableTime limit a table's hours. Larger values are scaled down to the limit.
const (
	tableWork = 48
	tableTime = 72
)

// market returns the knowledge about the types at an hour.
func (w *Workflow) market(ctx context.Context, hour int) ([]*knownMarket, error) {
	at := hour / relearn * relearn
	if known := w.learned[at]; known != nil {
		return known, nil
	}
	known := make([]*knownMarket, len(w.types))
	for k, t := range w.types {
		o := policy.Learning()
		o.Daily = false
		chain := market.Learn(t.USD[:at], o)
		table, err := bidding.Build(ctx, w.model(chain, k), tableWork, tableTime)
		if err != nil {
			return nil, err
		}
		known[k] = &knownMarket{chain: chain, table: table}
		known[k].runs(t.OnDemandUSD)
	}
	w.learned[at] = known
	return known, nil
}

func (p *markovMethod) order(ctx context.Context, m moment) (order, error) {
	w := p.w
	if m.late() {
		return order{kind: -1, onDemand: true}, nil
	}
	known, err := w.market(ctx, m.hour)
	if err != nil {
		return order{}, err
	}
	window := min(p.schedule.until[m.task], m.finish-w.reserve()) - m.now
	best, least, bid := -1, math.Inf(1), 0.0
	for k, t := range w.types {
		hours := m.start(k) + m.work/w.speed[k]
		if hours > window+1e-9 {
			continue
		}
		last := t.USD[m.hour-1]
		s := known[k].chain.Level(last, 0)
		through, patient := known[k].through(hours, s), math.Inf(1)
		if hours < tableWork && window >= hours+1 {
			patient = expected(known[k].table, hours, window, s)
		}
		if usd := min(through, patient); usd < least {
			best, least = k, usd
			bid = t.OnDemandUSD
			if patient < through {
				bid = bidFor(known[k].table, hours, min(window, tableTime), s)
			}
		}
	}
	if best < 0 {
		// Only the most powerful type is in time.
		return order{kind: w.fastest, maxUSD: w.unitUSD, onDemand: true}, nil
	}
	return order{kind: best, maxUSD: bid, onDemand: bid >= w.types[best].OnDemandUSD}, nil
}

// expected returns the expected cost of the given hours of work within a window.
func expected(t *bidding.Table, hours, window float64, s int) float64 {
	if hours <= 0 {
		return 0
	}
	f := max(1, hours/tableWork, window/tableTime)
	return f * t.Cost(hours/f, max(window, hours)/f, s, bidding.OnNothing)
}

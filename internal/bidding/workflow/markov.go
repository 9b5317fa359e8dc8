package workflow

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// markovMethod is our own method. In every hour it allocates the time up to the deadline again to the tasks that have
// not ended, by the prices that it expects. Within its time, a task uses the type with the lowest expected cost to its
// end, by the recursion over each type's chain, or waits; or it begins on a type that is too slow for all of its work,
// and a faster one does the rest.
type markovMethod struct {
	w     *Workflow
	own   float64   // time within which the workflow ends
	hour  int       // of the last allocation
	until []float64 // latest end of each task
}

func (w *Workflow) newMarkov(deadline float64) *markovMethod {
	return &markovMethod{w: w, own: w.own(deadline)}
}

// day is the number of hours over which an allocation expects the price of a type.
const day = 24

// adjust allocates the time again.
func (p *markovMethod) adjust(run *progress, hour int, known []*knownMarket) {
	w, usd := p.w, make([]float64, len(known))
	for k := range known {
		usd[k] = known[k].through(day, w.types[k].USD[hour-1]) / day / w.speed[k]
	}
	corners := w.corners(usd)
	spans := w.allocate(run, corners, p.own)
	if w.restart > 0 {
		w.stay(run, corners, spans)
	}
	p.hour, p.until = hour, w.latestEnds(spans, p.own)
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

// through returns the expected cost of the given hours without waiting, after a price.
func (l *knownMarket) through(hours, usd float64) float64 {
	s := l.chain.Level(usd, 0)
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
	if m.hour > p.hour {
		p.adjust(m.run, m.hour, known)
	}
	window := min(p.until[m.task], m.finish-w.reserve()) - m.now
	one, two := p.oneType(m, known, window), p.twoTypes(m, known, window)
	switch {
	case two.usd < one.usd:
		return order{kind: two.kind, maxUSD: two.bid, hours: two.hours}, nil
	case one.kind < 0: // only the most powerful type is in time
		return order{kind: w.fastest, maxUSD: w.unitUSD, onDemand: true}, nil
	}
	return order{kind: one.kind, maxUSD: one.bid, onDemand: one.bid >= w.types[one.kind].OnDemandUSD}, nil
}

// choice is the type and the bid for the next hours of a task, with the expected cost to its end. kind is -1 if there
// is none.
type choice struct {
	kind            int
	bid, usd, hours float64
}

// rounding is the relative error of a table, whose numbers have 32 bits.
const rounding = 1e-4

// oneType chooses the type that is expected to do the work within a window in hours at the lowest cost.
func (p *markovMethod) oneType(m moment, known []*knownMarket, window float64) choice {
	best := choice{kind: -1, usd: math.Inf(1)}
	for k, t := range p.w.types {
		hours, last := m.start(k)+m.work/p.w.speed[k], t.USD[m.hour-1]
		if hours > window+1e-9 {
			continue
		}
		through, patient := known[k].through(hours, last), math.Inf(1)
		s := known[k].chain.Level(last, 0)
		if hours < tableWork && window >= hours+1 {
			patient = expected(known[k].table, hours, window, s)
		}
		if usd := min(through, patient); usd < best.usd {
			best = choice{kind: k, bid: t.OnDemandUSD, usd: usd}
			if patient < through*(1-rounding) {
				best.bid = bidFor(known[k].table, hours, min(window, tableTime), s)
			}
		}
	}
	return best
}

// leastHours is the least time that work on a first type is worth a change.
const leastHours = 0.05

// twoTypes chooses the type to begin with, if a part of the work runs on a cheap type that is too slow for all of it
// and then the rest on a faster one, after another start.
func (p *markovMethod) twoTypes(m moment, known []*knownMarket, window float64) choice {
	w, best := p.w, choice{kind: -1, usd: math.Inf(1)}
	for a, slow := range w.types {
		slowHours := m.start(a) + m.work/w.speed[a]
		if slowHours <= window {
			continue
		}
		slowUSD := known[a].through(slowHours, slow.USD[m.hour-1])
		for b, fast := range w.types {
			fastHours := m.start(a) + m.restart + m.work/w.speed[b]
			if fastHours > window {
				continue
			}
			share := (window - fastHours) / (slowHours - fastHours)
			hours := m.start(a) + share*m.work/w.speed[a]
			if w.restart > 0 {
				hours = max(hours, m.spare) // a start is not worth a part of an hour
			}
			left := m.work - max(0, hours-m.start(a))*w.speed[a]
			if hours < leastHours || hours+m.restart+left/w.speed[b] > window+1e-9 {
				continue
			}
			usd := share*slowUSD + (1-share)*known[b].through(fastHours, fast.USD[m.hour-1])
			if usd < best.usd {
				best = choice{kind: a, bid: slow.OnDemandUSD, usd: usd, hours: hours}
			}
		}
	}
	return best
}

// expected returns the expected cost of the given hours of work within a window.
func expected(t *bidding.Table, hours, window float64, s int) float64 {
	if hours <= 0 {
		return 0
	}
	f := max(1, hours/tableWork, window/tableTime)
	return f * t.Cost(hours/f, max(window, hours)/f, s, bidding.OnNothing)
}

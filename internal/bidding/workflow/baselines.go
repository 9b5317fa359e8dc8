package workflow

import (
	"context"
	"math"
)

// alwaysSpot bids the on-demand price for the most powerful type and runs on demand if spot costs more.
type alwaysSpot struct{ w *Workflow }

func (p *alwaysSpot) order(context.Context, moment) (order, error) {
	return order{kind: p.w.fastest, maxUSD: p.w.unitUSD, onDemand: true}, nil
}

// aibMethod is AIB, "aggressive with intelligent bidding" (Poola et al., ICCS 2014). It estimates the critical path
// on the most powerful type. Each task takes the cheapest spot type that fits into the available slack, and bids
// between the spot and the on-demand price, closer to the latter the closer its latest time to on-demand is. From
// then on it runs on demand. So early tasks get slow machines, and late tasks pay for it (WCSSI, section 4.2).
//
// Like all methods here, it keeps an hour in reserve. Without it, one task that uses all slack would force all its
// successors to run on demand, and AIB would look worse than it is.
type aibMethod struct{ w *Workflow }

const aibAlpha = 0.1

func (p *aibMethod) order(_ context.Context, m moment) (order, error) {
	w := p.w
	if m.late() {
		return order{kind: -1, onDemand: true}, nil
	}
	best, least := -1, math.Inf(1)
	for k, t := range w.types {
		if m.now+m.start(k)+m.work/w.speed[k]+w.reserve() > m.finish+1e-9 {
			continue
		}
		if usd := t.USD[m.hour-1]; k == m.held && m.restart > 0 {
			best, least = k, usd // a start is not worth a slightly lower price
			break
		} else if usd < least && usd <= t.OnDemandUSD {
			best, least = k, usd
		}
	}
	if best < 0 {
		return order{kind: w.fastest, maxUSD: w.unitUSD, onDemand: true}, nil
	}
	top := w.types[best].OnDemandUSD
	near := math.Exp(-aibAlpha * (m.finish - m.work - m.restart - m.now))
	beta := failures(w.types[best].USD[:m.hour], least)
	return order{kind: best, maxUSD: near*top + (1-near)*(beta*top+(1-beta)*least)}, nil
}

// failures returns the share of hours in the last week that cost more than a bid.
func failures(history []float64, bid float64) float64 {
	recent := history[max(0, len(history)-168):]
	n := 0
	for _, p := range recent {
		if p > bid {
			n++
		}
	}
	return float64(n) / float64(len(recent))
}

package policy

import "math"

// AIB bids as the intelligent bidding strategy of Poola, Ramamohanarao and Buyya, "Fault-tolerant workflow scheduling
// using spot instances on clouds" (ICCS 2014): near the spot price while there is time, ever nearer to the on-demand
// price as the latest time to on-demand (LTO) comes, from where on it stays on demand:
//
//	γ = −α (LTO − now),  bid = e^γ p_od + (1 − e^γ)(β p_od + (1 − β) p_spot)
//
// with β the share of hours in which the last bid would have failed.
type AIB struct {
	OnDemandUSD float64
	bid         float64
}

// aibAlpha is how quickly the bid nears the on-demand price, per hour.
const aibAlpha = 0.1

// aibWindow is how many hours back failures of a bid are counted.
const aibWindow = 168

// Order bids by the formula.
func (p *AIB) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	spot := min(h.last(p.OnDemandUSD), p.OnDemandUSD)
	lto := float64(h.Left) - h.Work - h.Restart // hours until only on demand is left
	near := math.Exp(-aibAlpha * lto)
	beta := failures(h.History, p.bid)
	p.bid = near*p.OnDemandUSD + (1-near)*(beta*p.OnDemandUSD+(1-beta)*spot)
	return Order{MaxUSD: p.bid}, nil
}

// failures is the share of recent hours that cost more than a bid; 0 before the first bid.
func failures(history []float64, bid float64) float64 {
	recent := history[max(0, len(history)-aibWindow):]
	if bid <= 0 || len(recent) == 0 {
		return 0
	}
	n := 0
	for _, p := range recent {
		if p > bid {
			n++
		}
	}
	return float64(n) / float64(len(recent))
}

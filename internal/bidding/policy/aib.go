package policy

import "math"

// AIB bids with the intelligent bidding strategy of Poola, Ramamohanarao and Buyya, "Fault-tolerant workflow
// scheduling using spot instances on clouds" (ICCS 2014). It bids near the spot price while there is time, and closer
// to the on-demand price the closer the latest time to on-demand (LTO) is. From then on it stays on demand:
//
//	γ = −α (LTO − now),  bid = e^γ p_od + (1 − e^γ)(β p_od + (1 − β) p_spot)
//
// β is the share of hours in which the last bid would have failed.
type AIB struct {
	OnDemandUSD float64
	bid         float64
}

// aibAlpha is the rate per hour at which the bid approaches the on-demand price.
const aibAlpha = 0.1

// aibWindow is the number of recent hours in which failures of a bid are counted.
const aibWindow = 168

// Order computes the bid.
func (p *AIB) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	spot := min(h.last(p.OnDemandUSD), p.OnDemandUSD)
	lto := float64(h.Left) - h.Work - h.Restart // hours until the latest time to on-demand
	near := math.Exp(-aibAlpha * lto)
	beta := failures(h.History, p.bid)
	p.bid = near*p.OnDemandUSD + (1-near)*(beta*p.OnDemandUSD+(1-beta)*spot)
	return Order{MaxUSD: p.bid}, nil
}

// failures returns the share of recent hours that cost more than a bid; 0 before the first bid.
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

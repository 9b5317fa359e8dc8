package policy

import (
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Hour is a bidder's input when an hour begins, before the price of that hour is known.
type Hour struct {
	Work float64 // hours of work left
	Left int     // hours to the deadline, this one included
	// Start is the index of this hour on the scale of market.WeekHour; History is the prices of all hours before it.
	Start   int
	History []float64
	// Kin are the pasts of similar markets on the same scale of hours: the same type in other zones.
	Kin []market.Past
	On  bidding.Holding // what the task ran on in the hour before
	// Restart is the time that every start of a machine takes, as a share of the hour.
	Restart float64
}

// last returns the last known price, or the on-demand price if there is none.
func (h *Hour) last(onDemand float64) float64 {
	if n := len(h.History); n > 0 {
		return h.History[n-1]
	}
	return onDemand
}

// mustLeave reports the point of no return: if this hour were lost, the rest would be late even on demand.
func (h *Hour) mustLeave() bool { return h.Work+h.Restart > float64(h.Left-1)+1e-9 }

// Order is a bidder's decision for an hour: run on a spot machine if its price is at most MaxUSD (0 means never),
// otherwise run on demand or wait.
type Order struct {
	MaxUSD   float64
	OnDemand bool // run on demand if spot costs more than MaxUSD
}

// Bidder decides hour by hour for one task in one market. A Bidder is used for one run.
type Bidder interface {
	Order(Hour) (Order, error)
}

// AlwaysOnDemand never uses spot. The costs of all other policies are given as a share of its cost.
type AlwaysOnDemand struct{}

// Order runs on demand.
func (AlwaysOnDemand) Order(Hour) (Order, error) { return Order{OnDemand: true}, nil }

// AlwaysSpot never waits: it bids the on-demand price and runs on demand in each hour in which spot costs more. An
// autoscaling group with "spot with on-demand fallback" behaves like this.
type AlwaysSpot struct{ OnDemandUSD float64 }

// Order bids the on-demand price.
func (p AlwaysSpot) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	return Order{MaxUSD: p.OnDemandUSD, OnDemand: true}, nil
}

// Greedy uses spot whenever it is available and otherwise waits, until the point of no return. From then on it stays
// on demand. It is the greedy baseline of "Can't Be Late" (Wu et al., NSDI '24, §3).
type Greedy struct{ OnDemandUSD float64 }

// Order bids the on-demand price until the point of no return.
func (p Greedy) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	return Order{MaxUSD: p.OnDemandUSD}, nil
}

// UniformProgress keeps the work done in proportion to the time passed. It uses spot if available, on-demand if spot
// is not available and the task lags behind, and otherwise waits ("Can't Be Late", Wu et al., NSDI '24, §4). Spot
// counts as available if it costs no more than on-demand.
type UniformProgress struct {
	OnDemandUSD    float64
	Work, Deadline float64 // hours, of the whole run
}

// Order follows the line of uniform progress.
func (p UniformProgress) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	done, gone := p.Work-h.Work, p.Deadline-float64(h.Left)
	return Order{MaxUSD: p.OnDemandUSD, OnDemand: done < gone*p.Work/p.Deadline-1e-9}, nil
}

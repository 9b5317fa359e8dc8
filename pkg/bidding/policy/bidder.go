package policy

import (
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Hour is what a bidder knows when an hour begins, before the price of that hour is found.
type Hour struct {
	Work float64 // hours of work left
	Left int     // hours to the deadline, this one included
	// Start is this hour on the scale of market.WeekHour; History is all that came before it.
	Start   int
	History []float64
	// Kin is what is known of other markets of its kind, on the same scale of hours: of the same type in other zones.
	Kin []market.Past
	On  bidding.Holding // what the task ran on in the hour before
	// Restart is what every start of a machine costs, as a share of the hour.
	Restart float64
}

// last is the newest price known, and the on-demand price where none is.
func (h *Hour) last(onDemand float64) float64 {
	if n := len(h.History); n > 0 {
		return h.History[n-1]
	}
	return onDemand
}

// mustLeave is the point of no return: were this hour lost, the rest would be late even on demand.
func (h *Hour) mustLeave() bool { return h.Work+h.Restart > float64(h.Left-1)+1e-9 }

// Order is a bidder's decision for an hour: to run on a spot machine if its price is at most MaxUSD (0: not at all),
// and else to run on demand or to wait.
type Order struct {
	MaxUSD   float64
	OnDemand bool // where spot costs more than MaxUSD
}

// Bidder decides hour by hour for one task in one market. It is used for one run, from its first hour to its last.
type Bidder interface {
	Order(Hour) (Order, error)
}

// AlwaysOnDemand never uses spot: what everything else is a share of.
type AlwaysOnDemand struct{}

// Order runs on demand.
func (AlwaysOnDemand) Order(Hour) (Order, error) { return Order{OnDemand: true}, nil }

// AlwaysSpot never waits: it bids the on-demand price, and falls back on an on-demand machine in each hour in which
// spot costs more. It is what a user gets from an autoscaling group with "spot with on-demand fallback".
type AlwaysSpot struct{ OnDemandUSD float64 }

// Order bids the on-demand price.
func (p AlwaysSpot) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	return Order{MaxUSD: p.OnDemandUSD, OnDemand: true}, nil
}

// Greedy uses spot whenever it is to be had and waits otherwise, until the point of no return; from there on it stays
// on demand. It is the greedy baseline of "Can't Be Late" (Wu et al., NSDI '24, §3).
type Greedy struct{ OnDemandUSD float64 }

// Order bids the on-demand price until the point of no return.
func (p Greedy) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	return Order{MaxUSD: p.OnDemandUSD}, nil
}

// UniformProgress keeps the work done in proportion to the time gone: spot where it is to be had, on demand where it is
// not and the task lags behind, and else it waits ("Can't Be Late", Wu et al., NSDI '24, §4). Spot is to be had where
// it costs no more than on demand.
type UniformProgress struct {
	OnDemandUSD    float64
	Work, Deadline float64 // hours, of the whole run
}

// Order follows the uniform line.
func (p UniformProgress) Order(h Hour) (Order, error) {
	if h.mustLeave() {
		return Order{OnDemand: true}, nil
	}
	done, gone := p.Work-h.Work, p.Deadline-float64(h.Left)
	return Order{MaxUSD: p.OnDemandUSD, OnDemand: done < gone*p.Work/p.Deadline-1e-9}, nil
}

package policy

import (
	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// View is what a chooser knows when a step begins. Times are hours.
type View struct {
	Work, Left float64 // work left, and time to the deadline
	Step       float64 // until it is asked again
	// Up says of each zone whether a machine is to be had; Zones what has been learned of each, this step included.
	Up    []bool
	Zones *Zones
	// On is what the task runs on, and in which zone; what was taken is gone. Starting is how much of the start is
	// still to go.
	On       bidding.Holding
	Zone     int
	Starting float64
	// Changeover is what every start takes before work goes on.
	Changeover           float64
	SpotUSD, OnDemandUSD float64 // per hour
}

// mustLeave is the point of no return: were this step lost, a start on demand after it would be too late.
func (v *View) mustLeave() bool { return v.Left-v.Step < v.Work+v.Changeover-1e-9 }

// anyUp is the first zone that has machines, its own before others; −1 for none.
func (v *View) anyUp() int {
	if v.On == bidding.OnSpot && v.Up[v.Zone] {
		return v.Zone
	}
	for z, up := range v.Up {
		if up {
			return z
		}
	}
	return -1
}

// Place is a chooser's decision: what to run on until it is asked again, and in which zone.
type Place struct {
	On   bidding.Holding
	Zone int
}

// Chooser decides step by step for one task, in one zone or several. It is used for one run.
type Chooser interface {
	Choose(View) (Place, error)
}

// OnDemandPlace never uses spot.
type OnDemandPlace struct{}

// Choose runs on demand.
func (OnDemandPlace) Choose(View) (Place, error) { return Place{On: bidding.OnDemand}, nil }

// SpotPlace never waits: spot where it is to be had, and on demand where not.
type SpotPlace struct{}

// Choose takes spot, else on demand.
func (SpotPlace) Choose(v View) (Place, error) {
	if z := v.anyUp(); z >= 0 && !v.mustLeave() {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	return Place{On: bidding.OnDemand}, nil
}

// GreedyPlace uses spot whenever it is to be had and waits otherwise, until the point of no return, after which it
// stays on demand ("Can't Be Late", Wu et al., NSDI '24, §3). Without prices to bid, AIB (Poola et al.) is the same.
type GreedyPlace struct{ left bool }

// Choose takes spot, else waits.
func (p *GreedyPlace) Choose(v View) (Place, error) {
	if p.left = p.left || v.mustLeave(); p.left {
		return Place{On: bidding.OnDemand}, nil
	}
	if z := v.anyUp(); z >= 0 {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	return Place{}, nil
}

// UniformPlace is Uniform Progress ("Can't Be Late", Wu et al., NSDI '24, §4, algorithm 1): the work done keeps to a
// straight line from the start to the deadline. On spot it stays until that is taken (exploitation); without spot it
// goes on demand where it lags behind the line, and stays there until it is ahead by two changeovers (hysteresis), and
// waits otherwise; when only two changeovers are left it goes on demand for good (safety net). In several zones it
// takes any that has machines.
type UniformPlace struct {
	Work, Deadline float64 // hours, of the whole run
	left           bool
}

// Choose follows the line.
func (p *UniformPlace) Choose(v View) (Place, error) {
	onDemand := Place{On: bidding.OnDemand}
	if p.left || v.mustLeave() {
		p.left = true
		return onDemand, nil
	}
	if v.On == bidding.OnSpot { // taken machines are gone: it is held
		return Place{On: bidding.OnSpot, Zone: v.Zone}, nil
	}
	if v.On == bidding.OnNothing && v.Left < v.Work+2*v.Changeover {
		p.left = true
		return onDemand, nil
	}
	done, gone, rate := p.Work-v.Work, p.Deadline-v.Left, p.Work/p.Deadline
	if v.On == bidding.OnDemand && done < (gone+2*v.Changeover)*rate {
		return onDemand, nil
	}
	if z := v.anyUp(); z >= 0 {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	if done < gone*rate-1e-9 {
		return onDemand, nil
	}
	return Place{}, nil
}

package policy

import (
	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// View is a chooser's input when a step begins. Times are hours.
type View struct {
	Work, Left float64 // work left, and time to the deadline
	Step       float64 // hours until the next decision
	// Up reports for each zone whether a machine is available. Zones is what was learned about each, including this
	// step.
	Up    []bool
	Zones *Zones
	// On is the market that the task runs on (OnNothing after an interruption), and Zone its zone. Starting is the
	// remaining time of a start.
	On       bidding.Holding
	Zone     int
	Starting float64
	// Changeover is the time that every start takes before work continues.
	Changeover           float64
	SpotUSD, OnDemandUSD float64 // per hour
}

// pointOfNoReturn reports the point of no return: if this step were lost, a start on demand after it would be too late.
func (v *View) pointOfNoReturn() bool { return v.Left-v.Step < v.Work+v.Changeover-1e-9 }

// anyUp returns a zone with machines, preferably the task's own, then the first; −1 if there is none.
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

// Place is a chooser's decision: the market and the zone until the next decision.
type Place struct {
	On   bidding.Holding
	Zone int
}

// Chooser decides step by step for one task, in one or several zones. A Chooser is used for one run.
type Chooser interface {
	Choose(View) (Place, error)
}

// OnDemandPlace never uses spot.
type OnDemandPlace struct{}

// Choose runs on demand.
func (OnDemandPlace) Choose(View) (Place, error) { return Place{On: bidding.OnDemand}, nil }

// SpotPlace never waits: it uses spot if available and otherwise on-demand.
type SpotPlace struct{}

// Choose returns spot if available, otherwise on-demand.
func (SpotPlace) Choose(v View) (Place, error) {
	if z := v.anyUp(); z >= 0 && !v.pointOfNoReturn() {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	return Place{On: bidding.OnDemand}, nil
}

// GreedyPlace uses spot whenever it is available and otherwise waits, until the point of no return. From then on it
// stays on demand ("Can't Be Late", Wu et al., NSDI '24, §3). Without bids, AIB (Poola et al.) is the same.
type GreedyPlace struct{ left bool }

// Choose returns spot if available, otherwise waits.
func (p *GreedyPlace) Choose(v View) (Place, error) {
	if p.left = p.left || v.pointOfNoReturn(); p.left {
		return Place{On: bidding.OnDemand}, nil
	}
	if z := v.anyUp(); z >= 0 {
		return Place{On: bidding.OnSpot, Zone: z}, nil
	}
	return Place{}, nil
}

// UniformPlace is Uniform Progress ("Can't Be Late", Wu et al., NSDI '24, §4, algorithm 1): the work done follows a
// straight line from the start to the deadline. On spot, it stays until an interruption (exploitation). Without spot,
// it moves to on-demand if it is behind the line, stays there until it is ahead by two changeovers (hysteresis), and
// otherwise waits. If only two changeovers are left, it moves to on-demand for good (safety net). With several zones
// it uses any that has machines.
type UniformPlace struct {
	Work, Deadline float64 // hours, of the whole run
	left           bool
}

// Choose follows the line of uniform progress.
func (p *UniformPlace) Choose(v View) (Place, error) {
	onDemand := Place{On: bidding.OnDemand}
	if p.left || v.pointOfNoReturn() {
		p.left = true
		return onDemand, nil
	}
	if v.On == bidding.OnSpot { // not interrupted, so it stays
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

package pack

import (
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// ErrOptions is wrapped by errors of [Pack] about its options.
var ErrOptions = errors.New("bad options of the packing search")

// Options bound the search. One of Steps and Stop has to be given.
type Options struct {
	Seed  uint64
	Steps int         // attempts to place an instance, after which the search ends; 0 is any number
	Stop  func() bool // asked some hundred times a second; the search ends when it says true

	// Found is told of each better assignment: how many instances are placed, on how many machines. May be nil.
	Found func(placed, machines int)
}

// Result is the best assignment that was found. It keeps every constraint.
type Result struct {
	Assignment placement.Assignment
	Placed     int
	Machines   int
	Bound      int  // placement.LowerBound
	Steps      int  // attempts that were made
	Exact      bool // capacities were used to the last part, see the package's comment
}

// Pack puts the instances of a problem on as few machines as it can, all
// instances afresh: where they are already binds nothing. Instances for which there is no room are left out,
// as few as it can. The same problem, seed and number of steps give the same
// assignment.
func Pack(p *placement.Problem, o Options) (*Result, error) {
	if o.Steps < 0 || o.Steps == 0 && o.Stop == nil {
		return nil, fmt.Errorf("%w: steps %d and no stop: it would not end", ErrOptions, o.Steps)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := newSearch(p, o, true)
	if !s.margin {
		s.run(tries)
		return s.result(true), nil
	}
	s.run(1)
	if (s.best.placed < len(p.Instances) || s.best.machines > s.bound) && !s.stopped() {
		// What the margin for floating point costs may be just what is missing.
		exact := newSearch(p, o, false)
		exact.steps = s.steps
		exact.run(tries)
		if exact.best.better(s.best) {
			return exact.result(true), nil
		}
		s.steps = exact.steps
	}
	return s.result(false), nil
}

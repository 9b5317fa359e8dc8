package pack

import (
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// ErrOptions is wrapped by the errors of [Pack] about its options.
var ErrOptions = errors.New("bad options of the packing search")

// Options limit the search. Steps or Stop must be set.
type Options struct {
	Seed  uint64
	Steps int         // maximum number of attempts to place an instance; 0 means no limit
	Stop  func() bool // called some hundred times a second; the search ends when it returns true

	// Found is called for each better assignment with the numbers of placed instances and of machines. May be nil.
	Found func(placed, machines int)
}

// Result is the best assignment found. It respects every constraint.
type Result struct {
	Assignment placement.Assignment
	Placed     int
	Machines   int
	Bound      int  // placement.LowerBound
	Steps      int  // number of attempts
	Exact      bool // capacities were used without the safety margin, see the package comment
}

// Pack puts the instances of a problem on as few machines as it can. It places all instances from scratch and ignores
// their current machines. It leaves out as few instances as it can if there is not enough room. The same problem,
// seed and number of steps give the same assignment.
func Pack(p *placement.Problem, o Options) (*Result, error) {
	if o.Steps < 0 || o.Steps == 0 && o.Stop == nil {
		return nil, fmt.Errorf("%w: %d steps and no Stop: the search would not end", ErrOptions, o.Steps)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := newSearch(p, o, true)
	if !s.margin {
		s.run(maxFailures)
		return s.result(true), nil
	}
	s.run(1)
	if (s.best.placed < len(p.Instances) || s.best.machines > s.bound) && !s.stopped() {
		// The margin for floating point may be exactly what is missing.
		exact := newSearch(p, o, false)
		exact.steps = s.steps
		exact.run(maxFailures)
		if exact.best.better(s.best) {
			return exact.result(true), nil
		}
		s.steps = exact.steps
	}
	return s.result(false), nil
}

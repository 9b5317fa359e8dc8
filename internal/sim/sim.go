package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Options of a simulation. The zero value draws everything from the seed.
type Options struct {
	// Faults replaces the faults that the seed would have.
	Faults *Faults
	// Jobs is how many jobs are submitted; 0 draws it.
	Jobs int
	// Traces, if any, say where spot machines can be had, instead of a model.
	Traces []*Trace
	// Break breaks the system under test, to see that it is noticed.
	Break Break
	// Planner replaces the simulation's own; it must be deterministic, use the simulation's offers and be safe for
	// concurrent use. The guarantee of deadlines is not checked then.
	Planner broker.Planner
	// History is written every line of the history; nil for none.
	History io.Writer
	// Keep is how many of the last lines Result.History has.
	Keep int

	steady bool // for stories
}

func (o Options) planner(*world) broker.Planner {
	if o.Planner != nil {
		return o.Planner
	}
	return newPlanner()
}

// Violation is an invariant that did not hold.
type Violation struct {
	Seed      uint64        `json:"seed"`
	Step      int           `json:"step"`
	At        time.Duration `json:"at"` // virtual nanoseconds since the beginning
	Invariant string        `json:"invariant"`
	Detail    string        `json:"detail"`
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d, step %d, %v: %s: %s", v.Seed, v.Step, v.At.Round(time.Millisecond),
		v.Invariant, v.Detail)
}

// Result is one history.
type Result struct {
	Seed      uint64
	Steps     int
	Jobs      int
	Succeeded int
	Promised  int            // jobs whose deadline had to be kept, see Guarantee
	Virtual   time.Duration  // how much time passed in it
	Faults    map[string]int // what went wrong, by kind
	Violation *Violation     // nil if every invariant held
	History   []string       // the last lines
}

// How long the faults last, and how long the world then has to come to rest.
const (
	storm  = 8 * time.Hour
	calm   = 48 * time.Hour
	giveUp = 2 * time.Hour // into the calm, and as often after: people cancel what waits for the impossible
)

// Run plays the history of a seed.
func Run(seed uint64, opt Options) Result { return live(seed, opt).result() }

// live lets a world live from its beginning to its rest.
func live(seed uint64, opt Options) *world {
	faults := drawFaults(newRandom(seed, "faults"))
	faults.Tides = drawTides(newRandom(seed, "tides"))
	if opt.Faults != nil {
		faults = *opt.Faults
	}
	w := newWorld(seed, opt, faults)
	w.stormy, w.onTime = faults.stormy(), faults.punctual()
	w.sky.pastPrices()
	w.users.populate()
	w.yard.populate()
	w.engine.begin()
	w.check.look()
	w.until(beginning().Add(storm), w.check.allOver)
	w.settle()
	w.until(w.now.Add(calm), w.check.atRest)
	if w.violation == nil {
		w.check.final()
	}
	w.end()
	return w
}

// settle ends all faults: what is broken is mended, and nothing new breaks.
func (w *world) settle() {
	if w.violation != nil {
		return
	}
	w.say("world", "calms down", "")
	w.faults = Faults{Interleave: w.faults.Interleave}
	for _, h := range w.hosts {
		h.restart()
	}
	w.yard.settle()
	w.engine.redrive()
	w.engine.relayWithin(0)
	w.check.bound()
	w.after(giveUp, w.users.giveUp)
}

func (w *world) result() Result {
	r := Result{
		Seed: w.seed, Steps: w.steps, Jobs: len(w.users.jobs), Virtual: w.since(), Faults: w.counts,
		Violation: w.violation, History: w.history.lines(),
	}
	for _, s := range w.check.order {
		if s.job.State == record.JobSucceeded {
			r.Succeeded++
		}
		if s.promised {
			r.Promised++
		}
	}
	return r
}

package sim

import (
	"cmp"
	"io"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/drawn"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Options configures a simulation. The zero value draws everything from the seed.
type Options struct {
	// Faults replaces the faults drawn from the seed.
	Faults *weather.Faults
	// Jobs is the number of submitted jobs; 0 draws it.
	Jobs int
	// Traces, if any, are recorded availabilities of spot machines. They replace the model.
	Traces []*weather.Trace
	// Boots are measured boot times to draw from, instead of 15 to 100 s. Slow boots as a fault are drawn in
	// addition.
	Boots *hardware.Boots
	// Mail gives every world a broker without an address, which agents call through a bucket. Without it, a fifth of
	// the worlds have one.
	Mail bool
	// Older makes every record pass through a broker of an older version in every world. Without it, that happens in
	// one world of 25.
	Older bool
	// Services lets tasks of some jobs be applications of Spark, which may run on managed services.
	Services bool
	// Break injects a bug into the system under test, to show that it is detected.
	Break breaks.Kind
	// Planner replaces the simulation's own planner. It must be deterministic, use the simulation's offers and be
	// safe for concurrent use. The guarantee about deadlines is not checked then.
	Planner broker.Planner
	// History receives every line of the history; nil for none.
	History io.Writer
	// Keep is the number of last lines to keep in Result.History.
	Keep int

	steady bool // no randomness, for stories
	usual  bool // steps take as long as usual, see Measure
	steps  int  // replaces stepsMost if not 0
}

// managed reports whether worlds have managed services.
func (o Options) managed() bool { return o.Services || o.Break.Managed() }

func (o Options) planner(seed uint64) broker.Planner {
	if o.Planner != nil {
		return o.Planner
	}
	return planner.NewReserved(o.reserved(seed), o.committed(seed))
}

// shareReserved is the fraction of worlds whose accounts have reserved machines.
const shareReserved = 0.3

// reserved returns the number of reserved machines by listing ID.
func (o Options) reserved(seed uint64) map[string]int {
	r := timeline.NewRandom(seed, "reserved")
	always := o.Break == breaks.Crowding || o.Break == breaks.Circling
	if o.steady || !r.Chance(shareReserved) && !always {
		return nil
	}
	return drawn.Reserved(r, always, o.Break == breaks.Circling)
}

// committed returns the vCPUs of usage commitments by CLOUD/REGION. They suffice for one or two small machines, or
// for one big one.
func (o Options) committed(seed uint64) map[string]int {
	r := timeline.NewRandom(seed, "committed")
	if o.steady || o.Break == breaks.Circling || !r.Chance(shareReserved) && o.Break != breaks.Overcommitted {
		return nil
	}
	return drawn.Committed(r, o.Break == breaks.Overcommitted)
}

// shareOlder is the fraction of worlds in which every record passes through a broker of an older version. Such worlds
// are several times slower. They have no other injected bugs: those change the text of records, which the older
// broker writes in another order.
const shareOlder = 0.04

func (o Options) olderVersion(seed uint64) bool {
	if o.Break != "" {
		return o.Break == breaks.Amnesiac
	}
	return !o.steady && (o.Older || timeline.NewRandom(seed, "older").Chance(shareOlder))
}

// Result is the result of one history.
type Result struct {
	Seed      uint64
	Steps     int
	Jobs      int
	Succeeded int
	Promised  int                 // number of jobs whose deadline had to be met, see planner.Guarantee
	Virtual   time.Duration       // virtual time that passed
	Faults    map[string]int      // number of faults by kind
	Violation *timeline.Violation // nil if every invariant held
	History   []string            // the last lines
}

// The time in which faults occur, and the time that the world then has to come to rest. The latter is long because
// the tasks of a large job may have to run one after another in a small queue.
const (
	storm = 8 * time.Hour
	calm  = 96 * time.Hour
)

// kind is a kind of world that is drawn for one invariant.
type kind int

const (
	mixed    kind = iota
	frail         // spot machines are preempted often, and tasks save nothing
	siblings      // only jobs with long tasks in two queues that share a quota, no pools and no failures
)

// shareFrail and shareSiblings are the fractions of frail and siblings worlds.
const (
	shareFrail    = 0.05
	shareSiblings = 0.05
)

// drawKind draws the kind of a world, and changes its faults accordingly. Worlds with other bugs are mixed, so that
// these bugs show as often as without kinds.
func drawKind(seed uint64, opt Options, faults *weather.Faults) kind {
	r := timeline.NewRandom(seed, "kind")
	drawn := r.Float64()
	switch {
	case opt.Break == breaks.Hopeful || opt.Break == "" && opt.Faults == nil && drawn < shareFrail:
		faults.Taken, faults.NoticeLost = r.Spread(10*time.Minute, 40*time.Minute), 1
		return frail
	case opt.Break == breaks.Content || opt.Break == "" && opt.Faults == nil && drawn > 1-shareSiblings:
		*faults = weather.Faults{Interleave: faults.Interleave}
		return siblings
	}
	return mixed
}

// Run simulates the history of a seed.
func Run(seed uint64, opt Options) Result { return runWorld(seed, opt).result() }

// runWorld runs a world from its beginning to its rest.
func runWorld(seed uint64, opt Options) *world {
	faults := weather.Draw(timeline.NewRandom(seed, "faults"))
	faults.Tides = weather.DrawTides(timeline.NewRandom(seed, "tides"))
	faults.Closed = weather.DrawClosed(timeline.NewRandom(seed, "closed"), faults)
	kind := drawKind(seed, opt, &faults)
	if opt.Faults != nil {
		faults = *opt.Faults
	}
	w := newWorld(seed, opt, faults)
	w.kind, w.onTime = kind, faults.Punctual() && kind != siblings
	w.onTime = w.onTime && w.post == nil
	w.check.Late = w.post != nil
	w.check.Stormy, w.check.OnTime = faults.Stormy() || w.post != nil, w.onTime && opt.Planner == nil
	w.know(w.sky.PastPrices())
	w.users.populate()
	w.yard.populate()
	w.engine.begin()
	if w.post != nil {
		w.post.begin()
	}
	w.check.Look()
	w.Until(timeline.Beginning().Add(storm), w.unlessInCircles(w.check.AllOver))
	w.endFaults()
	w.Until(w.Now.Add(calm), w.unlessInCircles(func() bool { return w.check.AtRest() && w.post.empty() }))
	if w.Violation == nil && w.post != nil {
		w.post.checkEmpty()
	}
	if w.Violation == nil {
		w.check.Final()
	}
	w.end()
	return w
}

// stepsMost is the maximum number of steps of a history. Crowded worlds take a tenth of it.
const stepsMost = 1_000_000

// unlessInCircles returns a condition that is also met, with a violation, if the history exceeds the maximum number
// of steps.
func (w *world) unlessInCircles(over func() bool) func() bool {
	return func() bool {
		if w.Steps > cmp.Or(w.opt.steps, stepsMost) {
			w.Violatef(check.InvCircles, "no rest after %d steps", w.Steps)
			return true
		}
		return over()
	}
}

// endFaults ends all faults: whatever is broken is repaired, and nothing new breaks.
func (w *world) endFaults() {
	if w.Violation != nil {
		return
	}
	w.Say("world", "calms down", "")
	w.faults = weather.Faults{Interleave: w.faults.Interleave}
	if w.post != nil {
		w.post.endFaults()
	}
	for _, h := range w.hosts {
		h.restart()
	}
	w.yard.endFaults()
	w.engine.redrive()
	w.engine.relayWithin(0)
	w.check.Bound()
	w.After(check.GiveUp, w.users.giveUp)
}

func (w *world) result() Result {
	r := Result{
		Seed: w.Seed, Steps: w.Steps, Jobs: len(w.users.jobs), Virtual: w.Since(), Faults: w.Counts,
		Violation: w.Violation, History: w.History.Lines(),
	}
	for s := range w.check.All() {
		if s.Record.State == apitypes.JobSucceeded {
			r.Succeeded++
		}
		if s.Promised {
			r.Promised++
		}
	}
	return r
}

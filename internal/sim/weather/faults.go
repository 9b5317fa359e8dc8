package weather

import (
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

// Faults is how hostile a world is. Chances are for each operation; the zero value is a world in which
// nothing fails, and things merely take their time.
type Faults struct {
	// The processes of the broker. Interleave is the chance that others run before an operation, Slow that they do for
	// minutes, Crash that the process dies there.
	Interleave, Slow, Crash float64

	// The store: a conflict with nobody, a request to call less, and an error for a transaction that was applied.
	Conflict, Throttle, Unknown float64

	// Stalls are spans in which one function's messages are not taken: a deployment, or no concurrency left.
	Stalls Span

	// The bus: messages that are late or repeated, deliveries that nobody gets, acknowledgements that are lost.
	Delay, Repeat, Drop, AckLost float64

	// Clouds. A launch may fail, succeed unseen, hang until its machines appear later, or be taken and run out of stock
	// when some of its machines have been made (as Google's and Azure's operations do).
	LaunchFails, LaunchUnseen, LaunchHangs float64
	LaunchHalf                             float64
	CloudThrottles, TerminateFails         float64
	ListFails                              float64
	ListLag                                time.Duration // until a new machine is listed, at most
	Outages                                Span          // of a whole cloud's credentials
	OnDemand, Spot                         Span          // of capacity in one zone for one machine type
	// the chance that a spot price goes above on demand with a change
	Spells        float64
	Tides         Span // of all spot prices: for how long they are low, and high; zero are none
	QuotaMachines int  // of a machine family in a region; 0 is no quota

	// Machines. Taken is the mean time after which a spot machine is taken, NoticeLost the chance that a warning is not
	// heard of in each way in which it could be; Dies the mean time until a machine fails without a word.
	Taken, Dies time.Duration
	NoticeLost  float64
	SlowBoot    float64 // the chance that booting takes many minutes

	// The network between agents and the API: a request that never comes, an answer that does not, a request that comes
	// much later; and spans of no connection at all.
	RequestLost, AnswerLost, RequestLate float64
	Partition                            Span

	// The store of data: the chance that it refuses what was granted, and that a body takes many minutes. Coveting is
	// the chance that an agent asks for what is not its own.
	StoreRefuses, SlowBody, Coveting float64

	// Tasks: the chance that a run ends with an exit code, and by how much one may take longer than its author said.
	TaskFails, Overrun float64
	// Twice is the chance that an agent tells of its success again, under another ID.
	Twice float64
}

// Span describes something that comes and goes: the mean time for which all is well, and for which it is not. A zero
// Well is always well.
type Span struct{ Well, Ill time.Duration }

// Stormy says whether the broker's own parts are to fail, or the clouds' answers to it: then it may be late to notice
// and to stop what costs.
func (f Faults) Stormy() bool {
	f.Spot, f.OnDemand, f.Taken, f.NoticeLost, f.Interleave = Span{}, Span{}, 0, 0, 0
	f.Dies, f.SlowBoot, f.TaskFails, f.Overrun, f.Spells, f.Tides = 0, 0, 0, 0, 0, Span{}
	return f != Faults{}
}

// Punctual says whether nothing is to take longer than was planned for but what the clouds take away.
func (f Faults) Punctual() bool {
	return !f.Stormy() && f.OnDemand == Span{} && f.Dies == 0 && f.SlowBoot == 0 && f.TaskFails == 0 && f.Overrun == 0
}

// DrawTides draws whether spot prices rise and fall together, in worlds of any kind.
func DrawTides(r timeline.Random) Span {
	if !r.Chance(0.4) {
		return Span{}
	}
	return Span{Well: r.Spread(40*time.Minute, 6*time.Hour), Ill: r.Spread(20*time.Minute, 3*time.Hour)}
}

// Draw draws how hostile the world of a seed is: each kind of fault is there in some worlds and not in
// others, and seldom all are at once (swarm testing, Groce et al., ISSTA 2012).
func Draw(r timeline.Random) Faults {
	f := Faults{Interleave: r.Uniform(0.05, 0.7), Spells: 0.1}
	const often = 0.6
	some := func(field *float64, most float64) {
		if r.Chance(often) {
			*field = r.Uniform(0, most)
		}
	}
	spans := func(field *Span, often float64, well, ill time.Duration) {
		if r.Chance(often) {
			*field = Span{Well: r.Spread(well/3, 3*well), Ill: r.Spread(ill/3, 3*ill)}
		}
	}
	spans(&f.Spot, 0.8, 3*time.Hour, time.Hour)
	if r.Chance(0.7) {
		f.Taken = r.Spread(10*time.Minute, 4*time.Hour)
		f.NoticeLost = r.Float64()
	}
	kind := r.Float64()
	if kind < 0.2 {
		return f // only the clouds' capacity: here deadlines hold
	}
	some(&f.SlowBoot, 0.2)
	some(&f.TaskFails, 0.15)
	some(&f.Overrun, 1)
	if r.Chance(0.3) {
		f.Dies = r.Spread(time.Hour, 20*time.Hour)
	}
	if kind < 0.35 {
		return f // and what tasks and machines do: here budgets hold to the cent
	}
	some(&f.Slow, 0.01)
	some(&f.Crash, 0.01)
	some(&f.Conflict, 0.05)
	some(&f.Throttle, 0.03)
	some(&f.Unknown, 0.02)
	spans(&f.Stalls, 0.5, 40*time.Minute, 4*time.Minute)
	some(&f.Delay, 0.2)
	some(&f.Repeat, 0.2)
	some(&f.Drop, 0.05)
	some(&f.AckLost, 0.05)
	some(&f.LaunchFails, 0.5)
	some(&f.LaunchUnseen, 0.4)
	some(&f.LaunchHangs, 0.4)
	some(&f.CloudThrottles, 0.3)
	some(&f.TerminateFails, 0.5)
	some(&f.ListFails, 0.2)
	if r.Chance(often) {
		f.ListLag = r.Between(0, 5*time.Minute)
	}
	spans(&f.Outages, 0.3, 2*time.Hour, 20*time.Minute)
	spans(&f.OnDemand, 0.5, 6*time.Hour, time.Hour)
	if r.Chance(0.3) {
		f.QuotaMachines = 1 + r.IntN(6)
	}
	some(&f.RequestLost, 0.2)
	some(&f.AnswerLost, 0.2)
	some(&f.RequestLate, 0.1)
	spans(&f.Partition, 0.4, time.Hour, 6*time.Minute)
	some(&f.Twice, 0.2)
	some(&f.StoreRefuses, 0.2)
	some(&f.SlowBody, 0.1)
	some(&f.Coveting, 0.5)
	some(&f.LaunchHalf, 0.3)
	return f
}

// ErrNetwork is all that an agent or a user learns of a call that went wrong on the way, or at the other end.
var ErrNetwork = errors.New("sim: no answer")

// ErrUnknown is what a store says of a transaction whose outcome it lost.
var ErrUnknown = errors.New("sim: the connection was reset: outcome unknown")

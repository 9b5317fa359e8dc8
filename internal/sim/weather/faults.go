package weather

import (
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

// Faults determines how hostile a world is. Chances are per operation. In a world with the zero value nothing fails;
// things only take their time.
type Faults struct {
	// The processes of the broker. Interleave is the chance that others run before an operation, Slow that they do so
	// for minutes, Crash that the process crashes there.
	Interleave, Slow, Crash float64

	// The store: a false conflict, a throttled call, and an error for a transaction that was applied.
	Conflict, Throttle, Unknown float64

	// Stalls are times in which one function handles no messages: a deployment, or no concurrency left.
	Stalls Span

	// The bus: delayed or repeated messages, lost deliveries, and lost acknowledgements.
	Delay, Repeat, Drop, AckLost float64

	// Clouds. A launch may fail, succeed unseen, hang until its machines appear later, or be accepted and run out of
	// capacity after some machines have been created (as Google's and Azure's operations do).
	LaunchFails, LaunchUnseen, LaunchHangs float64
	LaunchHalf                             float64
	CloudThrottles, TerminateFails         float64
	ListFails                              float64
	ListLag                                time.Duration // maximum time until a new machine is listed
	Outages                                Span          // of a whole cloud's credentials
	OnDemand, Spot                         Span          // of capacity in one zone for one machine type
	// chance that a price change goes above the on-demand price
	Spells        float64
	Tides         Span // of all spot prices: how long they are low, and high; zero is no tides
	QuotaMachines int  // machines of a family in a region; 0 is no quota

	// Machines. Taken is the mean time until a spot machine is preempted, NoticeLost the chance that a warning is lost
	// on each of its ways; Dies the mean time until a machine fails without notice.
	Taken, Dies time.Duration
	NoticeLost  float64
	SlowBoot    float64 // chance that booting takes many minutes

	// The network between agents and the API: a lost request, a lost answer, a request that arrives much later; and
	// times without any connection.
	RequestLost, AnswerLost, RequestLate float64
	Partition                            Span
	// Closed is a time in which no agent reaches the API. The broker and the clouds keep working.
	Closed Span

	// Faults of the data store: the chance that it refuses a granted request, and that a body takes many minutes.
	// Coveting is the chance that an agent requests objects of others.
	StoreRefuses, SlowBody, Coveting float64

	// Tasks: the chance that a run ends with an exit code, and the fraction by which one may exceed its estimate.
	TaskFails, Overrun float64
	// Twice is the chance that an agent reports its success again, with another ID.
	Twice float64
}

// Span is a condition that alternates between good and bad: the mean lengths of the two. With a zero Well it is always
// good.
type Span struct{ Good, Bad time.Duration }

// Stormy reports whether the broker's own parts may fail, or the clouds' answers to it. Then the broker may detect
// and stop costs late.
func (f Faults) Stormy() bool {
	f.Spot, f.OnDemand, f.Taken, f.NoticeLost, f.Interleave = Span{}, Span{}, 0, 0, 0
	f.Dies, f.SlowBoot, f.TaskFails, f.Overrun, f.Spells, f.Tides = 0, 0, 0, 0, 0, Span{}
	return f != Faults{}
}

// Punctual reports whether nothing takes longer than planned, except where clouds take machines.
func (f Faults) Punctual() bool {
	return !f.Stormy() && f.OnDemand == Span{} && f.Dies == 0 && f.SlowBoot == 0 && f.TaskFails == 0 && f.Overrun == 0
}

// DrawTides draws whether all spot prices rise and fall together, for any kind of world.
func DrawTides(r timeline.Random) Span {
	if !r.Chance(0.4) {
		return Span{}
	}
	return Span{Good: r.Spread(40*time.Minute, 6*time.Hour), Bad: r.Spread(20*time.Minute, 3*time.Hour)}
}

// DrawClosed draws outages of the agents' endpoint, for a third of the worlds in which the broker's own parts fail.
func DrawClosed(r timeline.Random, f Faults) Span {
	if !f.Stormy() || !r.Chance(0.3) {
		return Span{}
	}
	return Span{Good: r.Spread(time.Hour, 6*time.Hour), Bad: r.Spread(20*time.Minute, time.Hour)}
}

// Draw draws the faults of a world: each kind of fault is present in some worlds and absent in others, and rarely all
// at once (swarm testing, Groce et al., ISSTA 2012).
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
			*field = Span{Good: r.Spread(well/3, 3*well), Bad: r.Spread(ill/3, 3*ill)}
		}
	}
	spans(&f.Spot, 0.8, 3*time.Hour, time.Hour)
	if r.Chance(0.7) {
		f.Taken = r.Spread(10*time.Minute, 4*time.Hour)
		f.NoticeLost = r.Float64()
	}
	kind := r.Float64()
	if kind < 0.2 {
		return f // only the clouds' capacity: deadlines hold in these worlds
	}
	some(&f.SlowBoot, 0.2)
	some(&f.TaskFails, 0.15)
	some(&f.Overrun, 1)
	if r.Chance(0.3) {
		f.Dies = r.Spread(time.Hour, 20*time.Hour)
	}
	if kind < 0.35 {
		return f // also tasks and machines: budgets hold to the cent in these worlds
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

// ErrNetwork is the error that an agent or user gets for a call that failed in the network or on the other side.
var ErrNetwork = errors.New("sim: no answer")

// ErrUnknown is a store's error for a transaction with an unknown outcome.
var ErrUnknown = errors.New("sim: the connection was reset: outcome unknown")

package check

import (
	"iter"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// World is what the checker asks of the world around it.
type World interface {
	// Machines are all that were ever launched, on clouds and in pools.
	Machines() iter.Seq[*Machine]
	// Busy says whether a message waits or a process runs.
	Busy() bool
	// Queued says which messages wait, and Dead are those that were given up.
	Queued() string
	Dead() []bus.DeadLetter
	// Broker is one that can be asked.
	Broker() *broker.Broker
}

// Wanted is a job as its author knows it. Names are unique in a world.
type Wanted struct {
	Spec      *dag.Job
	ByTask    map[string]int
	Cancelled bool      // its author asked for its end
	Factor    []float64 // by which each task takes longer than its author said
	Failures  []int     // runs of each task that ended with an exit code
	Deadly    []bool    // tasks that take down the agent of their machine each time they run
	Endless   []bool    // tasks that do not end by themselves: their gang's chief ends them
	// Waits is since when somebody has it wait, and the broker has said that it does; zero when nobody does.
	Waits time.Time
}

// Machine is a machine that really runs, and really costs.
type Machine struct {
	ID, Cluster string
	Rank        int
	Cloud       string
	Offer       apitypes.Offer
	Bid         float64 // the most that an hour costs, USD
	Launched    time.Time
	Ended       time.Time // zero while it runs
	Speaks      bool      // its agent lives
	Ready       bool      // what runs there is a replica of a service that can be used
	Served      bool      // and one that could be
}

// Alive says whether the machine runs.
func (m *Machine) Alive() bool { return m.Ended.IsZero() }

// billBy is what a machine has cost, USD: by the second, but for a minute at least, and a spot machine at the price of
// each moment, as it goes along a path.
func (c *Checker) billBy(m *Machine, p weather.Course) float64 {
	until := m.Ended
	if m.Alive() {
		until = c.Now
	}
	if least := m.Launched.Add(c.cfg.MinBilled); until.Before(least) {
		until = least
	}
	return m.cost(p, m.Launched, until)
}

func (m *Machine) cost(p weather.Course, from, to time.Time) float64 {
	if !m.Offer.Spot {
		return to.Sub(from).Hours() * m.Offer.USDPerHour
	}
	return p.Cost(from, to, m.Bid)
}

// billSince is what of the bill is for the time since a moment.
func (c *Checker) billSince(m *Machine, t time.Time) float64 {
	if !t.After(m.Launched) {
		return c.billBy(m, c.sky.Market(weather.ListingOf(m.Offer)))
	}
	until := m.Ended
	if m.Alive() {
		until = c.Now
	}
	if until.Before(t) {
		return 0
	}
	return m.cost(c.sky.Market(weather.ListingOf(m.Offer)), t, until)
}

package check

import (
	"iter"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// World is the checker's view of the world.
type World interface {
	// Machines returns all machines that were ever launched, on clouds and in pools.
	Machines() iter.Seq[*Machine]
	// Busy reports whether a message waits or a process runs.
	Busy() bool
	// Queued lists the waiting messages; Dead returns the dead letters.
	Queued() string
	Dead() []bus.DeadLetter
	// Broker returns a broker that can be queried.
	Broker() *broker.Broker
}

// Wanted is a job as its author knows it. Names are unique in a world.
type Wanted struct {
	Spec      *dag.Job
	ByTask    map[string]int
	Cancelled bool      // its author cancelled it
	Removed   bool      // by its user, or will be once it has finished
	Factor    []float64 // how many times its estimate each task takes
	Failures  []int     // runs of each task that ended with an exit code
	Deadly    []bool    // tasks that kill the agent of their machine in each run
	Endless   []bool    // tasks that end only when their gang's chief does
	// Waits is the time since which the job is suspended, as confirmed by the broker; zero if it is not suspended.
	Waits time.Time
}

// Machine is a machine that really runs and costs money.
type Machine struct {
	ID, Cluster string
	Rank        int
	Cloud       string
	Offer       apitypes.Offer
	Bid         float64 // maximum price, USD per hour
	Launched    time.Time
	Ended       time.Time // zero while it runs
	Speaks      bool      // its agent is alive
	Answered    time.Time // when the broker last answered its agent
	Member      string    // the member of its chunk that it runs; empty if it runs its own task
	Ready       bool      // runs a replica of a service that is ready
	Served      bool      // has run one that was ready
	// Service is the managed service to which the machine belongs as a place, empty for a machine. All machines of a
	// place count as one. Lost is the time at which the place or its application ended without a request of the
	// broker. From and To are the start and end of the time in which the application of a serverless service had
	// executors; zero before these.
	Service  string
	Lost     time.Time
	From, To time.Time
}

// Alive reports whether the machine runs.
func (m *Machine) Alive() bool { return m.Ended.IsZero() }

// billBy returns the cost of a machine, in USD, for the time that its cloud bills. The price of a spot machine at
// each moment is taken from the course of prices.
func (c *Checker) billBy(m *Machine, p weather.Course) float64 {
	from, until := m.Launched, m.Ended
	if weather.Serverless(m.Service) {
		if from, until = m.From, m.To; from.IsZero() {
			return 0
		}
	}
	if until.IsZero() {
		until = c.Now
	}
	billed := hardware.BillingOf(m.Offer.Cloud).Billed(max(until.Sub(from), 1))
	return m.cost(p, from, from.Add(billed))
}

func (m *Machine) cost(p weather.Course, from, to time.Time) float64 {
	if !m.Offer.Spot {
		return to.Sub(from).Hours() * m.Offer.USDPerHour
	}
	return p.Cost(from, to, m.Bid)
}

// billSince returns the part of the bill since a time.
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
	real := c.sky.Market(weather.ListingOf(m.Offer))
	return m.cost(real, m.Launched, until) - m.cost(real, m.Launched, t) // increments are charged once
}

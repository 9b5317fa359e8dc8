package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Config are the times and limits of the broker. Durations are by the broker's clock.
type Config struct {
	// Endpoint is the URL at which agents reach the API.
	Endpoint string
	// StoreURL is the bucket for outputs and checkpoints: file:///…, s3://….
	StoreURL string
	// Stores are those of the places where tasks run.
	Stores Stores
	// Private are prefixes in that bucket that are the broker's own: no attempt reaches them.
	Private []string
	// Proven are the clouds whose machines have to prove which they are when they say hello.
	Proven []string
	// GrantFor is how long what an agent is granted lasts, in the machines' time. It is granted anew while its attempt
	// lasts, so that this is how long a machine that was let go of can still write.
	GrantFor time.Duration
	// SeenFor is how long a handled event is remembered: longer than any queue redelivers.
	SeenFor time.Duration
	// BlockFor is how long a location is not tried after a failure of a kind; it doubles with each
	// failure in a row, to at most 16 times.
	BlockFor map[cloud.Kind]time.Duration
	// LaunchTries bounds the launches of one attempt that fail for a passing reason.
	LaunchTries int
	// BootWithin is how long a cluster may take from launch to all nodes dialling home;
	// SilentFor how long a node may be silent; StuckFor how long a step may take before reconcile does it again.
	BootWithin, SilentFor, StuckFor time.Duration
	// ListLag is how long clouds may take to list what they have launched; 0 is StuckFor.
	ListLag time.Duration
	// RetryEvery is how often a waiting job is planned again when no block expires before.
	RetryEvery time.Duration
	// Patience is how long a job waits for blocks to end whose file says nothing of it and which has no later deadline.
	Patience time.Duration
	// TokenFor is how long an agent's token is good beyond what its task is expected to take. It is renewed when less
	// than half of that is left, as long as the attempt lives.
	TokenFor time.Duration
	// Overhead is what the broker sets aside of a budget for each attempt beyond its run time: boot, notice, release.
	Overhead time.Duration
	// Scale is wall seconds per second of the broker's clock: below 1 in compressed time. StandInScale is the same for
	// the recorded run times of stand-ins; 0 makes them take no time at all.
	Scale, StandInScale float64
	// MinBilled is the shortest time a cloud bills a machine for.
	MinBilled time.Duration
	// Pace is how often agents call while they work, where each call costs. Its Alive is well below SilentFor.
	Pace wire.Pace
	// DefaultQueue is what a queue that nobody configured starts as.
	DefaultQueue apitypes.Queue
	// OverdueAfter is how long a task may wait for its queue's quota before it keeps those behind it waiting too.
	OverdueAfter time.Duration
	// Restart is what a start on other machines takes, from leaving the old ones until the work goes on.
	Restart time.Duration
	// TickEvery is how often prices and spot machines are looked at: a machine is left early enough not to need the
	// look after.
	TickEvery time.Duration
	// Worse is by what share of its cost a plan in force must be beaten before a price tick replans.
	Worse float64
	// Pool are how the machines of pools and the broker wait for each other.
	Pool PoolTimes
	// Scheduler and Schedulers say which of how many processes this is that run schedule at once, so that they take
	// turns in looking at the partitions of pools. Where nobody knows, both are 0; then Process names this one among
	// others that come and go, who take numbers from the table, and is empty of one that is alone.
	Scheduler, Schedulers int
	Process               string
	// Rotates is how sessions choose the partitions of a pool that they place tasks in: latency, quality or, where it
	// is empty, parsync.
	Rotates parsync.Policy
}

// PromisedFor is how long room is kept for those for whom others were stopped.
func (c Config) PromisedFor() time.Duration { return 2 * c.Overhead }

// DefaultConfig has the values that suit a public cloud.
func DefaultConfig() Config {
	return Config{
		SeenFor: 15 * 24 * time.Hour,
		BlockFor: map[cloud.Kind]time.Duration{
			cloud.Capacity: 20 * time.Minute, cloud.Quota: time.Hour, cloud.Auth: 6 * time.Hour,
			cloud.Throttled: 2 * time.Minute, cloud.Transient: 5 * time.Minute,
		},
		LaunchTries: 4,
		BootWithin:  15 * time.Minute,
		SilentFor:   5 * time.Minute,
		StuckFor:    10 * time.Minute,
		RetryEvery:  10 * time.Minute,
		Patience:    24 * time.Hour,
		TokenFor:    24 * time.Hour,
		GrantFor:    15 * time.Minute,
		Overhead:    10 * time.Minute,
		Scale:       1, StandInScale: 1,
		MinBilled:    time.Minute,
		Restart:      10 * time.Minute,
		TickEvery:    10 * time.Minute,
		OverdueAfter: 30 * time.Minute,
		Worse:        0.1,
		Pool:         DefaultPoolTimes(),
	}
}

// Wall turns a duration of the broker's clock into one of the machines'.
func (c Config) Wall(d time.Duration) time.Duration { return time.Duration(float64(d) * c.Scale) }

// Mover knows what it costs and takes to move data between places, CLOUD:REGION. A *egress.Prices is one.
type Mover interface {
	// Move returns what a GiB costs, USD, and takes, hours, from one place to another. ok is false where either is no
	// place.
	Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool)
	// PlaceOf is where a bucket lies, by its URL; empty is nowhere in particular.
	PlaceOf(uri string) string
}

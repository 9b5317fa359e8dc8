package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Config are the times and limits of the broker. Durations are by the broker's clock.
type Config struct {
	// Endpoint is the URL at which agents reach the API.
	Endpoint string
	// StoreURL is the bucket for outputs and checkpoints: file:///…, s3://….
	StoreURL string
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
	// RetryEvery is how often a waiting job is planned again when no block expires before.
	RetryEvery time.Duration
	// TokenFor is how long an agent's token is good beyond what its task is expected to take. It is renewed when less
	// than half of that is left, as long as the attempt lives.
	TokenFor time.Duration
	// Overhead is what the broker sets aside of a budget for each attempt beyond its run time: boot, notice, release.
	Overhead time.Duration
	// Scale is wall seconds per second of the broker's clock: below 1 in compressed time. StandInScale is the same for the
	// recorded run times of stand-ins; 0 makes them take no time at all.
	Scale, StandInScale float64
	// MinBilled is the shortest time a cloud bills a machine for.
	MinBilled time.Duration
	// Pace is how often agents call while they work, where each call costs. Its Alive is well below SilentFor.
	Pace wire.Pace
	// DefaultQueue is what a queue that nobody configured starts as.
	DefaultQueue Queue
	// OverdueAfter is how long a task may wait for its queue's quota before it keeps those behind it waiting too.
	OverdueAfter time.Duration
	// Restart is what a start on other machines takes, from leaving the old ones until the work goes on.
	Restart time.Duration
	// TickEvery is how often prices and spot machines are looked at: a machine is left early enough not to need the look after.
	TickEvery time.Duration
	// Worse is by what share of its cost a plan in force must be beaten before a price tick replans.
	Worse float64
	// Pool are how the machines of pools and the broker wait for each other.
	Pool PoolTimes
	// Scheduler and Schedulers say which of how many processes this is that run schedule at once, so that they take turns in looking at the partitions of
	// pools. Where nobody knows, both are 0.
	Scheduler, Schedulers int
}

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
		TokenFor:    24 * time.Hour,
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

// wall turns a duration of the broker's clock into one of the machines'.
func (c Config) wall(d time.Duration) time.Duration { return time.Duration(float64(d) * c.Scale) }

// Planner makes plans. It must be a function of its input alone.
type Planner interface {
	Plan(ctx context.Context, in PlanInput) (*Plan, error)
}

// Mover knows what it costs and takes to move data between places, CLOUD:REGION. A *catalog.Egress is one.
type Mover interface {
	// Move returns what a GiB costs, USD, and takes, hours, from one place to another. ok is false where either is no place.
	Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool)
	// PlaceOf is where a bucket lies, by its URL; empty is nowhere in particular.
	PlaceOf(uri string) string
}

// Objects reads DAG files that appeared in a bucket or folder.
type Objects interface {
	// Open reads an object. It fails with fs.ErrNotExist when it is gone.
	Open(ctx context.Context, bucket, key string) (io.ReadCloser, error)
	// Settle makes good anywhere what a job says in relation to where its file lies, such as relative paths.
	Settle(bucket, key string, spec *dag.Job)
}

// Prices reads spot prices for tick. It may return none.
type Prices interface {
	SpotPrices(ctx context.Context) ([]events.PriceTick, error)
}

// Hook is told of events that are news for people.
type Hook interface {
	Notify(ctx context.Context, e events.Event) error
}

// Ports are what a host hands to the broker.
type Ports struct {
	Store   store.Store
	Bus     bus.Bus                // for the relay
	Clouds  map[string]cloud.Cloud // by catalogue name
	Planner Planner
	Moves   Mover // of those who run sessions, or tell what they would decide
	Tokens  func(wire.Claims) (string, error)
	Now     func() time.Time
	Objects Objects                         // may be nil: no DAG bucket
	Prices  Prices                          // may be nil
	Hook    Hook                            // may be nil
	Refresh func(ctx context.Context) error // reloads the catalogue; may be nil
	// Policy tells how sessions decide now, one that CheckPolicy has nothing against. It may be nil, or return nil: OwnPolicy.
	Policy func(ctx context.Context) *scheduler.Policy
	Log    *slog.Logger
	// Changed is told of each cluster whose command may have changed, so that a host with
	// waiting agents can answer them at once. May be nil.
	Changed func(cluster string)
	// Committed is told after each commit that put events in the outbox. May be nil.
	Committed func()
}

// FnAPI stands for what users and agents ask, which is no function that reacts to events.
const FnAPI = "api"

// Check names the ports that functions cannot do without and that are not there. Hosts ask before they make a broker: what is
// missing would else be found out by the first event that needs it.
func (p Ports) Check(functions ...string) error {
	needs := func(any ...string) bool {
		return slices.ContainsFunc(any, func(fn string) bool { return slices.Contains(functions, fn) })
	}
	var missing []string
	for _, port := range []struct {
		name   string
		absent bool
	}{
		{"Store", p.Store == nil}, {"Now", p.Now == nil},
		{"Planner", p.Planner == nil && needs(events.FnOptimize)},
		{"Moves", p.Moves == nil && needs(events.FnSchedule, FnAPI)},
		{"Tokens", p.Tokens == nil && needs(events.FnProvision, FnAPI)},
	} {
		if port.absent {
			missing = append(missing, port.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("broker: %s cannot work without %s", strings.Join(functions, ", "), strings.Join(missing, ", "))
	}
	return nil
}

// Broker handles events. It keeps no state but a cache of what never changes, so any number of
// them may work on the same store.
type Broker struct {
	Ports
	*Loader
	*Keeper
	*Views
	log       *slog.Logger
	functions map[string]function
}

// New makes a broker.
func New(cfg Config, p Ports) *Broker {
	log := p.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Broker{Ports: p, log: log, functions: functions()}
	b.Loader = newLoader(p.Store, p.Now, cfg)
	b.committed = b.told
	b.Keeper = newKeeper(b.Loader, p.Tokens)
	b.Views = &Views{b.Keeper}
	b.Clouds = maps.Clone(p.Clouds)
	if b.Clouds == nil {
		b.Clouds = map[string]cloud.Cloud{}
	}
	b.Clouds[PoolCloud] = b.Keeper.Driver()
	return b
}

// told tells the host what a unit changed.
func (b *Broker) told(u *unit) {
	b.noted(u)
	if b.Changed != nil {
		for c := range u.changes {
			if id, ok := clusterOf(c.Key); ok && c.written {
				b.Changed(id)
			}
		}
	}
	if b.Committed != nil && len(u.emits) > 0 {
		b.Committed()
	}
}

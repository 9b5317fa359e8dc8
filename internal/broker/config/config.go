// Package config has the settings of the broker: its times and limits, where jobs keep their data, and how the machines
// of pools and the broker wait for each other.
package config

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Config has the times and limits of the broker. Durations are by the broker's clock.
type Config struct {
	// Endpoint is the URL at which agents reach the API.
	Endpoint string
	// StoreURL is the bucket for outputs and checkpoints: file:///…, s3://….
	StoreURL string
	// Stores are the stores by place, for tasks that run there.
	Stores Stores
	// Private are prefixes in that bucket that only the broker uses: attempts have no access.
	Private []string
	// Proven are the clouds whose machines must prove their identity when they dial home.
	Proven []string
	// Shared are the clouds whose machines share a computer with other work, because they are simulated. The machines
	// of pools always do. Agents limit the memory of their tasks.
	Shared []string
	// BuysNothing means that all machines are simulated, so jobs cost nothing. Amounts of money are estimates then.
	BuysNothing bool
	// GrantFor is how long an agent's storage credentials are valid, in the machines' time. They are renewed as long
	// as the attempt lasts. So this is how long a released machine can still write.
	GrantFor time.Duration
	// SeenFor is how long a handled event is remembered: longer than any queue redelivers it.
	SeenFor time.Duration
	// BlockFor is how long a location is blocked after a failure of a kind. It doubles with each failure in a row, up
	// to 16 times. A missing right may only not have taken effect yet: on Google Cloud that takes 2 to 7 minutes, on
	// Azure up to 30.
	BlockFor map[cloud.Kind]time.Duration
	// LaunchTries is the maximum number of launches of one attempt that fail for a transient reason.
	LaunchTries int
	// BootWithin is the maximum time from launch until all nodes have dialled home, SilentFor the maximum time
	// without a call from a node, and StuckFor the maximum time of a step before reconcile repeats it.
	BootWithin, SilentFor, StuckFor time.Duration
	// SlowBoots are the machines that may take longer than BootWithin.
	SlowBoots []SlowBoot
	// ListLag is how long after a launch a cloud may not list the machines yet; 0 means StuckFor.
	ListLag time.Duration
	// PlanWithin is the maximum time that planning a job takes, in the planner's own time. A longer try has failed: the
	// function's time is up, or its process has ended.
	PlanWithin time.Duration
	// EndTryWithin is the maximum time for recording that such a try has ended; wall time. 0 is no limit.
	EndTryWithin time.Duration
	// RetryEvery is how often a waiting job is planned again if no block expires before.
	RetryEvery time.Duration
	// Patience is how long a job waits for blocks to end, unless its file says otherwise or its deadline is later.
	Patience time.Duration
	// Keep is how long finished jobs are kept whose file and queues say nothing; 0 and dag.KeepForever mean forever.
	Keep time.Duration
	// TokenFor is how long an agent's token is valid beyond the expected time of its task. It is renewed when less
	// than half of that is left, as long as the attempt lasts.
	TokenFor time.Duration
	// Overhead is the time that is reserved in budgets for each attempt beyond its run time: boot, notice, release.
	Overhead time.Duration
	// Scale is wall seconds per second of the broker's clock: below 1 in compressed time. StandInScale is the same for
	// the recorded run times of stand-ins; with 0 they take no time.
	Scale, StandInScale float64
	// Pace is how often agents call while they work, since each call costs. Its Alive is well below SilentFor.
	Pace wire.Pace
	// Chunk is how long members of an array may take together that run one after the other in one attempt, where each
	// call costs money. If it is 0, each member has its own attempt.
	Chunk time.Duration
	// Limit is what the deployment may have of bought machines at the same time.
	Limit Limit
	// DefaultQueue has the settings of queues that were never configured.
	DefaultQueue apitypes.Queue
	// OverdueAfter is how long a task may wait for quota before it also keeps those behind it waiting.
	OverdueAfter time.Duration
	// Restart is the time of a start on other machines, from leaving the old ones until work continues.
	Restart time.Duration
	// Handling is how long a task holds its share of a shared machine besides its run: until the machine has its order,
	// has staged it, and has reported its end.
	Handling time.Duration
	// TickEvery is how often prices and spot machines are checked. A machine is left early enough not to need the next
	// check.
	TickEvery time.Duration
	// Worse is the fraction of its cost by which the current plan must be beaten before a price change replans.
	Worse float64
	// Walk is the work of one invocation of reconcile and tick.
	Walk Walk
	// Pool has the times between the broker and the machines of pools.
	Pool PoolTimes
	// Scheduler is the number of this process among Schedulers processes that run schedule at the same time and take
	// turns in reading the partitions of pools. If unknown, both are 0. Then Process is the name of this process, and
	// it takes a number from a table; it is empty for a process that is alone.
	Scheduler, Schedulers int
	Process               string
	// Rotates is how sessions choose the partitions of a pool that they place tasks in: latency, quality or, if empty,
	// as parsync decides.
	Rotates parsync.Policy
}

// PaidChunk is Config.Chunk where each call costs money. The calls for ten members of 30 s then cost about as much as
// those for two with their own attempts.
const PaidChunk = 5 * time.Minute

// MailHandling is Config.Handling where orders and reports are messages in a bucket, for which both sides look every
// half second to two seconds. `make bench-bill` measures it.
const MailHandling = 3 * time.Second

// PromisedFor is how long room is kept for tasks for which others were stopped.
func (c Config) PromisedFor() time.Duration { return 2 * c.Overhead }

// Default returns values that suit a public cloud.
func Default() Config {
	return Config{
		SeenFor: 15 * 24 * time.Hour,
		BlockFor: map[cloud.Kind]time.Duration{
			cloud.Capacity: 20 * time.Minute, cloud.Quota: time.Hour, cloud.Auth: 2 * time.Minute,
			cloud.Throttled: 2 * time.Minute, cloud.Transient: 5 * time.Minute,
		},
		LaunchTries: 4,
		BootWithin:  15 * time.Minute,
		SlowBoots: []SlowBoot{
			{Cloud: "lambda", Accelerators: 2, Within: 30 * time.Minute},
			{Cloud: "aws", Service: "emr", Within: 30 * time.Minute},
		},
		SilentFor:    wire.Patience,
		StuckFor:     10 * time.Minute,
		PlanWithin:   2 * time.Minute,
		EndTryWithin: time.Second,
		RetryEvery:   10 * time.Minute,
		Patience:     24 * time.Hour,
		TokenFor:     24 * time.Hour,
		GrantFor:     15 * time.Minute,
		Overhead:     10 * time.Minute,
		Scale:        1, StandInScale: 1,
		Restart:      10 * time.Minute,
		Handling:     time.Second,
		TickEvery:    10 * time.Minute,
		OverdueAfter: 30 * time.Minute,
		Worse:        0.1,
		Walk:         Walk{Together: 50, Most: 500, Span: 450, Spans: 20},
		Pool:         DefaultPoolTimes(),
	}
}

// Walk is the work of one invocation of reconcile and tick. They divide the jobs that it leaves into spans, with an
// event to themselves for each, so that no number of jobs exceeds a function's time limit, and many jobs are checked at
// the same time.
type Walk struct {
	Together int // jobs whose records are read together
	Most     int // jobs that are checked one by one; a batch read together counts as two
	Span     int // jobs of a span, which one invocation checks
	Spans    int // the invocation for the jobs behind them divides those further
}

// SlowBoot is a kind of machine that boots slowly: of a cloud, with at least a number of accelerators, or a managed
// service of it.
//
// Sources of the defaults: Lambda's FAQ, "How long does it take for instances to launch?": 3 to 5 minutes with one GPU,
// 10 to 15 with several. A cluster of EMR takes 8 to 12 minutes, and plans expect up to 15.
type SlowBoot struct {
	Cloud        string
	Service      string // empty: machines and all services
	Accelerators float64
	Within       time.Duration
}

// BootLimit returns the maximum time from the launch of an offer's machines until all have called.
func (c Config) BootLimit(o apitypes.Offer) time.Duration {
	limit := c.BootWithin
	for _, slow := range c.SlowBoots {
		if slow.Cloud == o.Cloud && (slow.Service == "" || slow.Service == o.Service) &&
			o.AccelCount >= slow.Accelerators {
			limit = max(limit, slow.Within)
		}
	}
	return limit
}

// Wall converts a duration of the broker's clock to one of the machines' clock.
func (c Config) Wall(d time.Duration) time.Duration { return time.Duration(float64(d) * c.Scale) }

// Simulated converts a duration of the machines' clock to one of the broker's clock: it is longer in compressed time.
func (c Config) Simulated(d time.Duration) time.Duration {
	if c.Scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / c.Scale)
}

// PoolTimes are the intervals and timeouts between the broker and the machines of pools, by the broker's clock.
type PoolTimes struct {
	// Beat is how often the time of a machine's last call is recorded.
	Beat time.Duration
	// A machine without a call for StaleAfter gets no new tasks; after LostAfter its tasks are lost. If no machine of
	// its pool calls, the endpoint may be closed: then they are lost after Config.SilentFor.
	StaleAfter, LostAfter time.Duration
	// Busy and Idle are how soon a machine calls again, while a change is pending and while not. Full is how soon a
	// worker calls again that has no room for another task; it calls at once when a task ends.
	Busy, Idle, Full time.Duration
	// Gather is how long a worker waits after the end of a task before it calls, if calls cost money (Pace.Polls): by
	// then the broker has the next task.
	Gather time.Duration
	// Known is how long a process keeps its list of pools. Turn is how often it reads another partition.
	Known, Turn time.Duration
	// BlockFor is how long a machine gets no new tasks after it has failed to start a cluster. It doubles with each
	// failure in a row.
	BlockFor time.Duration
}

// DefaultPoolTimes returns values that suit machines that use a public API.
func DefaultPoolTimes() PoolTimes {
	return PoolTimes{
		Beat: time.Minute, StaleAfter: 3 * time.Minute, LostAfter: 8 * time.Minute,
		Busy: 3 * time.Second, Idle: 15 * time.Second, Full: time.Minute, Gather: 800 * time.Millisecond,
		Known: 5 * time.Second, Turn: time.Second,
		BlockFor: 10 * time.Minute,
	}
}

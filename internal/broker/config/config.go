// Package config has the settings of the broker: its times and limits, the stores for jobs' data, and the times
// between the broker and machines of pools.
package config

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// Config has the times and limits of the broker. Durations are by the broker's clock, unless stated otherwise.
type Config struct {
	// Endpoint is the URL at which agents reach the API.
	Endpoint string
	// StoreURL is the bucket for outputs and checkpoints: file:///…, s3://….
	StoreURL string
	// Stores are additional stores by place, for tasks that run in that place.
	Stores Stores
	// Private lists the prefixes in that bucket that only the broker uses. Attempts have no access to them.
	Private []string
	// Proven lists the clouds whose machines must prove their identity when they call the broker.
	Proven []string
	// Shared lists the clouds whose machines share a computer with other work, because they are simulated. (Machines
	// of pools always share their computer.) Agents there limit the memory of their tasks.
	Shared []string
	// BuysNothing means that all machines are simulated. Jobs then cost nothing, and amounts of money are estimates.
	BuysNothing bool
	// GrantFor is the lifetime of an agent's storage credentials, by the machines' clock. They are renewed during the
	// attempt. So a released machine can still write for at most this long.
	GrantFor time.Duration
	// SeenFor is the time for which a handled event is remembered. It is longer than the time in which any queue
	// redelivers an event.
	SeenFor time.Duration
	// BlockFor is the time for which a location is blocked after a failure of each kind. It doubles with each failure
	// in a row, up to 16 times. A new right takes effect late (2 to 7 minutes on Google Cloud, up to 30 on Azure), so
	// a missing right blocks only for minutes at first.
	BlockFor map[cloud.Kind]time.Duration
	// LaunchTries is the maximum number of launches of one attempt that may fail for a transient reason.
	LaunchTries int
	// BootWithin is the maximum time from the launch until all nodes have called. SilentFor is the maximum time
	// without a call from a node. StuckFor is the maximum time of a step before reconcile repeats it.
	BootWithin, SilentFor, StuckFor time.Duration
	// SlowBoots lists the machines that may take longer than BootWithin.
	SlowBoots []SlowBoot
	// ListLag is the maximum time after a launch until the cloud lists the machines; 0 means StuckFor.
	ListLag time.Duration
	// PlanWithin is the maximum time of planning a job, by the planner's clock. A try that takes longer has failed:
	// the time of its function is over, or its process has ended.
	PlanWithin time.Duration
	// EndTryWithin is the maximum wall time for recording that such a try has ended; 0 means no limit.
	EndTryWithin time.Duration
	// RetryEvery is the interval at which a waiting job is planned again if no block expires before.
	RetryEvery time.Duration
	// Patience is the time for which a job waits for blocks to end, unless its file states another or its deadline is
	// later.
	Patience time.Duration
	// Keep is the time for which finished jobs are kept if neither their file nor their queues state one; 0 and
	// dag.KeepForever mean for ever.
	Keep time.Duration
	// TokenFor is the time for which an agent's token is valid beyond the expected run time of its task. During the
	// attempt, the token is renewed when less than half of that time is left.
	TokenFor time.Duration
	// Overhead is the time that budgets reserve for each attempt in addition to its run time: boot, notice, release.
	Overhead time.Duration
	// Scale is the number of wall seconds per second of the broker's clock; it is below 1 in compressed time.
	// StandInScale is the same for the recorded run times of stand-ins; with 0, they take no time.
	Scale, StandInScale float64
	// Pace states how often agents call while they work, because each call costs money. Its Alive is far below
	// SilentFor.
	Pace wire.Pace
	// Chunk is the maximum total run time of the members of a chunk, which run one after the other in one attempt. It
	// is used where each call costs money. With 0, each member has its own attempt.
	Chunk time.Duration
	// Limit limits the bought machines that the deployment may have at a time.
	Limit Limit
	// DefaultQueue has the settings of queues without settings.
	DefaultQueue apitypes.Queue
	// OverdueAfter is the time for which a task waits for quota before the tasks behind it must wait, too.
	OverdueAfter time.Duration
	// Restart is the time of a move to other machines: from leaving the old ones until the work continues.
	Restart time.Duration
	// Handling is the time for which a task holds its share of a shared machine in addition to its run time: until
	// the machine has its command, has staged the data, and has reported the end.
	Handling time.Duration
	// TickEvery is the interval of checks of prices and spot machines. Tasks leave a machine early enough not to
	// depend on the next check.
	TickEvery time.Duration
	// Worse is the fraction of the current plan's cost by which a new plan must be cheaper for a replan after a price
	// change.
	Worse float64
	// Walk limits the work of one invocation of reconcile and tick.
	Walk Walk
	// Pool has the times between the broker and the machines of pools.
	Pool PoolTimes
	// Scheduler is the number of this process among Schedulers processes that run schedule at the same time and share
	// the reads of pools' partitions. If the number is unknown, both are 0: this process then takes a number from a
	// table under its name, Process. Process is empty for a process that is alone.
	Scheduler, Schedulers int
	Process               string
	// Rotates is the rule by which sessions choose the partitions of a pool for their tasks: latency, quality, or if
	// empty the one that parsync decides.
	Rotates parsync.Policy
}

// PaidChunk is the value of Config.Chunk where each call costs money. The calls of ten members of 30 s then cost
// about as much as those of two members with their own attempts.
const PaidChunk = 5 * time.Minute

// MailHandling is the value of Config.Handling where commands and reports are messages in a bucket. Both sides check
// the bucket every half second to two seconds. `make bench-bill` measures this time.
const MailHandling = 3 * time.Second

// PromisedFor returns the time for which room is kept for tasks for which other tasks were stopped.
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

// Walk limits the work of one invocation of reconcile and tick. The invocation divides the remaining jobs into spans
// and emits an event for each. So no number of jobs exceeds a function's time limit, and many jobs are checked at the
// same time.
type Walk struct {
	Together int // number of jobs whose records are read together
	Most     int // maximum number of jobs that are checked one by one; a batch that is read together counts as two
	Span     int // number of jobs in a span, which one invocation checks
	Spans    int // maximum number of spans; the last one is divided further by its own invocation
}

// SlowBoot is a kind of machine that boots slowly: machines of a cloud with at least a number of accelerators, or a
// managed service of that cloud.
//
// Sources of the defaults: Lambda's FAQ, "How long does it take for instances to launch?": 3 to 5 minutes with one
// GPU, 10 to 15 with several. A cluster of EMR takes 8 to 12 minutes, and plans expect up to 15.
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

// Simulated converts a duration of the machines' clock to one of the broker's clock, which is longer in compressed
// time.
func (c Config) Simulated(d time.Duration) time.Duration {
	if c.Scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / c.Scale)
}

// PoolTimes has the intervals and timeouts between the broker and the machines of pools, by the broker's clock.
type PoolTimes struct {
	// Beat is the interval at which the time of a machine's last call is recorded.
	Beat time.Duration
	// A machine without a call for StaleAfter gets no new tasks. After LostAfter, its tasks are lost. If no machine
	// of its pool calls, the endpoint may be closed, so tasks are lost only after Config.SilentFor.
	StaleAfter, LostAfter time.Duration
	// Busy is the interval of a machine's calls while a change is pending, and Idle otherwise. Full is the interval
	// of a worker that has no room for another task; it also calls at once when a task ends.
	Busy, Idle, Full time.Duration
	// Gather is the time that a worker waits after the end of a task before it calls, if calls cost money
	// (Pace.Polls). By then, the broker has the next task.
	Gather time.Duration
	// Known is the time for which a process keeps its list of pools. Turn is the interval at which it reads the next
	// partition.
	Known, Turn time.Duration
	// BlockFor is the time for which a machine gets no new tasks after it failed to start a cluster. It doubles with
	// each failure in a row.
	BlockFor time.Duration
}

// DefaultPoolTimes returns values that suit machines that call a public API.
func DefaultPoolTimes() PoolTimes {
	return PoolTimes{
		Beat: time.Minute, StaleAfter: 3 * time.Minute, LostAfter: 8 * time.Minute,
		Busy: 3 * time.Second, Idle: 15 * time.Second, Full: time.Minute, Gather: 800 * time.Millisecond,
		Known: 5 * time.Second, Turn: time.Second,
		BlockFor: 10 * time.Minute,
	}
}

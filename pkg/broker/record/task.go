package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// TaskState is where a task is between ready and done.
type TaskState string

// The states of a task.
const (
	TaskQueued    TaskState = "queued"
	TaskAdmitted  TaskState = "admitted"
	TaskLaunching TaskState = "launching"
	TaskRunning   TaskState = "running"
	TaskSucceeded TaskState = "succeeded"
	TaskFailed    TaskState = "failed"
)

// Task is the record of a task that became ready. That it runs, its cluster's record has (Cluster.tellTask).
type Task struct {
	Job     string    `json:"job"`
	Index   int       `json:"index"`
	State   TaskState `json:"state"`
	Try     int       `json:"try"`     // announcements: 1 plus retries of its own failure
	Attempt int       `json:"attempt"` // number of the last attempt
	// Plan is the version it was admitted under; MinPlan the oldest it may be admitted under.
	Plan    int `json:"plan,omitempty"`
	MinPlan int `json:"minPlan,omitempty"`
	// Checkpoint and Progress carry the work from one attempt to the next.
	Checkpoint Saved   `json:"checkpoint,omitzero"`
	Progress   float64 `json:"progress,omitempty"`
	// Silent are the attempts in a row that lost an agent, with nothing saved in between, though no cloud took it.
	Silent    int       `json:"silent,omitempty"`
	ReadyAt   time.Time `json:"readyAt"`
	StartedAt time.Time `json:"startedAt,omitzero"` // of the last attempt that started
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Place     string    `json:"place,omitempty"`  // aws:us-east-1: where it runs, or its outputs are
	Output    string    `json:"output,omitempty"` // where its outputs lie (Config.At)
	Reason    string    `json:"reason,omitempty"`
	// OnDemand says that spot was left for good: nothing else keeps the deadline.
	OnDemand bool `json:"onDemand,omitempty"`
	// WaitSince is since when it waits for a better price, and WaitUSD what its market cost then, USD per hour.
	WaitSince time.Time `json:"waitSince,omitzero"`
	WaitUSD   float64   `json:"waitUSD,omitempty"`
	// Gang is the one that it is in; empty is none.
	Gang string `json:"gang,omitempty"`
	// Alone says of a task of a gang that it begins anew by itself, while the others go on.
	Alone bool `json:"alone,omitempty"`
	// Joins is the gang whose machines its own join while that runs.
	Joins string `json:"joins,omitempty"`
	// YieldedTo are the claims that it was stopped for, each time one.
	YieldedTo []string `json:"yieldedTo,omitempty"`
	// Service is the one that it is a replica of; empty is none.
	Service string `json:"service,omitempty"`
	// Misses are the attempts of a replica that ended in a row before they were ready for long, and NotBefore is until
	// when it is not tried again because of them.
	Misses    int       `json:"misses,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Hours are expected of the last attempt, where that is not what its plan says: on machines of a pool.
	Hours float64 `json:"hours,omitempty"`
}

// Saved is a complete checkpoint.
type Saved struct {
	Seq    int       `json:"seq"`
	Prefix string    `json:"prefix"` // where it lies (Config.At)
	At     time.Time `json:"at"`
}

// Attempt is the history of one try to run a task: what was bought, for how much, how it ended. It is written when it
// is admitted, when it fails and when its machines are gone; what happens between, its cluster's record has
// (Cluster.tell).
type Attempt struct {
	Job         string      `json:"job"`
	Task        int         `json:"task"`
	Number      int         `json:"number"`
	Plan        int         `json:"plan"`
	Offer       cloud.Offer `json:"offer"`
	OfferID     string      `json:"offerID"`
	Nodes       int         `json:"nodes"`
	MaxUSD      float64     `json:"maxUSD,omitempty"` // bid, USD per hour and machine
	Admitted    time.Time   `json:"admitted"`
	Launched    time.Time   `json:"launched,omitzero"`
	Up          time.Time   `json:"up,omitzero"`
	Started     time.Time   `json:"started,omitzero"`
	Ended       time.Time   `json:"ended,omitzero"`
	Outcome     Outcome     `json:"outcome,omitempty"`  // empty while it lasts
	KeptUntil   time.Time   `json:"keptUntil,omitzero"` // its machines, though its task has failed, for people to look at
	Reason      string      `json:"reason,omitempty"`
	VCPU        float64     `json:"vcpu"`                  // of all nodes
	Hold        Amounts     `json:"hold,omitempty"`        // of all nodes, beside vCPUs: what it holds of its queue's
	ReservedUSD float64     `json:"reservedUSD,omitempty"` // set aside of the job's budget, or of its queue's
	// Monthly says that it is set aside of the month's budget of its queue, or of one above it, as well.
	Monthly     bool    `json:"monthly,omitempty"`
	Resumed     float64 `json:"resumed,omitempty"`     // progress it started from
	ResumedFrom string  `json:"resumedFrom,omitempty"` // checkpoint it started from
	USD         float64 `json:"usd,omitempty"`
	EgressUSD   float64 `json:"egressUSD,omitempty"` // of USD, what moving its data cost
	// RateUSD is what an hour of one machine cost last, where that is not what it was planned with; SurchargeUSD what
	// of it is not the spot market's.
	RateUSD float64 `json:"rateUSD,omitempty"`
	// WaitSince is since when it had waited for a better price than WaitUSD, USD per hour, when it was admitted.
	WaitSince    time.Time `json:"waitSince,omitzero"`
	WaitUSD      float64   `json:"waitUSD,omitempty"`
	SurchargeUSD float64   `json:"surchargeUSD,omitempty"`
	// Of an attempt on machines of a pool: which ones, by rank; where they are, for its data; and what it would have
	// bought otherwise.
	Hosts   []string `json:"hosts,omitempty"`
	Place   string   `json:"place,omitempty"`
	Instead Instead  `json:"instead,omitzero"`
	// Doubt is why a machine that spoke for the attempt was not believed, the first time; DoubtedAt is when.
	Doubt     string    `json:"doubt,omitempty"`
	DoubtedAt time.Time `json:"doubtedAt,omitzero"`
}

// Outcome says how an attempt ended.
type Outcome string

// The outcomes of an attempt. Blocked ones never asked the cloud.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomePreempted Outcome = "preempted"
	OutcomeMoved     Outcome = "moved" // left a spot machine that was no longer worth it; Reason says why
	OutcomeLost      Outcome = "lost"
	OutcomeRefused   Outcome = "refused" // the cloud did not launch it; Reason has its words
	OutcomeBlocked   Outcome = "blocked"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeBudget    Outcome = "budget" // stopped before it would overspend
)

// maxDoublings keeps the time that a task keeps its machines from overflowing.
const maxDoublings = 16

// Keeps is how long a task keeps its machines from when it runs on them before they may be another's: as long as a
// start elsewhere takes, so that it has done more than it loses, and twice as long each time that it was stopped.
// So a task is stopped no more often than its work can be halved down to a start.
func (t Task) Keeps(restart time.Duration) time.Duration {
	return restart << min(len(t.YieldedTo), maxDoublings)
}

// Instead is what an attempt would have bought, had there been no room in a pool.
type Instead struct {
	Offer string  `json:"offer"` // ID of the offer planned
	USD   float64 `json:"usd"`   // expected of it, with what it costs to move the data there
}

// TellTasks completes tasks, in the order of their keys, by what clusters have seen of them.
func TellTasks(clusters []Cluster, tasks []Task) {
	for i := range clusters {
		if j, ok := TaskAt(tasks, clusters[i].Task); ok {
			clusters[i].TellTask(&tasks[j])
		}
	}
}

// TaskAt finds a task by its index in the job.
func TaskAt(tasks []Task, index int) (at int, ok bool) {
	return slices.BinarySearchFunc(tasks, index, func(t Task, index int) int { return cmp.Compare(t.Index, index) })
}

package broker

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	pricing "github.com/tradewind-broker/tradewind/pkg/market"
)

// JobState is where a job is in its life.
type JobState string

// The states of a job. Ending jobs start nothing new and free their machines.
const (
	JobPlanning  JobState = "planning"
	JobWaiting   JobState = "waiting" // nothing feasible now; tried again at Job.RetryAt
	JobRunning   JobState = "running"
	JobEnding    JobState = "ending"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Over says whether the state is final.
func (s JobState) Over() bool {
	return s == JobSucceeded || s == JobFailed || s == JobCancelled
}

// Job is the record of one submitted DAG. Its tasks are in the spec blob, how far they are in
// Progress. It changes with the job's state and plan, not with each task, so reading it is cheap.
type Job struct {
	ID         string         `json:"id"`
	Digest     string         `json:"digest"` // of the name and the submission's token: what makes it idempotent
	Name       string         `json:"name"`
	Queue      string         `json:"queue"`
	Priority   int            `json:"priority,omitempty"`
	Objective  dag.Objective  `json:"objective"`
	Infeasible dag.Infeasible `json:"infeasible,omitempty"`
	State      JobState       `json:"state"`
	// Outcome is the state an ending job will have; Reason says why it did not succeed, or what a waiting one waits for.
	Outcome   JobState  `json:"outcome,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Submitted time.Time `json:"submitted"`
	Finished  time.Time `json:"finished,omitzero"`
	Deadline  time.Time `json:"deadline,omitzero"`
	BudgetUSD float64   `json:"budgetUSD,omitempty"`
	Tasks     int       `json:"tasks"`
	Spec      Blob      `json:"spec"`
	Plan      Blob      `json:"plan,omitzero"`     // in force; Version 0 is none yet
	Bids      Blob      `json:"bids,omitzero"`     // for it
	Waits     bool      `json:"waits,omitempty"`   // some of its tasks may wait for a better price
	Started   bool      `json:"started,omitempty"` // tasks have been announced
	RetryAt   time.Time `json:"retryAt,omitzero"`
	// Estimates of the first plan, and the same work bought on demand where each task is cheapest.
	PlannedUSD  float64 `json:"plannedUSD,omitempty"`
	OnDemandUSD float64 `json:"onDemandUSD,omitempty"`
	USD         float64 `json:"usd,omitempty"` // final cost
	Late        bool    `json:"late,omitempty"`
	Source      string  `json:"source,omitempty"` // bucket and key, or api
	TimeScale   float64 `json:"timeScale,omitempty"`
}

// Progress is how far the tasks of a job are: what advance decides on, and it alone writes.
type Progress struct {
	Phases    []byte `json:"phases"` // one Phase a task
	Succeeded int    `json:"succeeded"`
}

// Phase is what advance knows of a task, one byte in Progress.Phases.
type Phase = byte

// The phases of a task.
const (
	PhaseWaiting   Phase = 'w' // for its parents
	PhaseReady     Phase = 'r' // announced; schedule and provision have it
	PhaseSucceeded Phase = 's'
	PhaseFailed    Phase = 'f'
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
	Checkpoint Saved     `json:"checkpoint,omitzero"`
	Progress   float64   `json:"progress,omitempty"`
	ReadyAt    time.Time `json:"readyAt"`
	StartedAt  time.Time `json:"startedAt,omitzero"` // of the last attempt that started
	EndedAt    time.Time `json:"endedAt,omitzero"`
	Place      string    `json:"place,omitempty"`  // aws:us-east-1: where it runs, or its outputs are
	Output     string    `json:"output,omitempty"` // prefix of its outputs in the job's store
	Reason     string    `json:"reason,omitempty"`
	// OnDemand says that spot was left for good: nothing else keeps the deadline.
	OnDemand bool `json:"onDemand,omitempty"`
	// WaitSince is since when it waits for a better price, and WaitUSD what its market cost then, USD per hour.
	WaitSince time.Time `json:"waitSince,omitzero"`
	WaitUSD   float64   `json:"waitUSD,omitempty"`
	// Gang is the one that it is in; empty is none.
	Gang string `json:"gang,omitempty"`
	// YieldedTo are the claims that it was stopped for, each time one.
	YieldedTo []string `json:"yieldedTo,omitempty"`
	// Hours are expected of the last attempt, where that is not what its plan says: on machines of a pool.
	Hours float64 `json:"hours,omitempty"`
}

// Saved is a complete checkpoint.
type Saved struct {
	Seq    int       `json:"seq"`
	Prefix string    `json:"prefix"`
	At     time.Time `json:"at"`
}

// Attempt is the history of one try to run a task: what was bought, for how much, how it ended. It is written when it is admitted, when it fails
// and when its machines are gone; what happens between, its cluster's record has (Cluster.tell).
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
	Outcome     Outcome     `json:"outcome,omitempty"` // empty while it lasts
	Reason      string      `json:"reason,omitempty"`
	VCPU        float64     `json:"vcpu"`                  // of all nodes
	ReservedUSD float64     `json:"reservedUSD,omitempty"` // set aside of the job's budget
	Resumed     float64     `json:"resumed,omitempty"`     // progress it started from
	ResumedFrom string      `json:"resumedFrom,omitempty"` // checkpoint it started from
	USD         float64     `json:"usd,omitempty"`
	// RateUSD is what an hour of one machine cost last, where that is not what it was planned with; SurchargeUSD what of it is not the spot market's.
	RateUSD float64 `json:"rateUSD,omitempty"`
	// WaitSince is since when it had waited for a better price than WaitUSD, USD per hour, when it was admitted.
	WaitSince    time.Time `json:"waitSince,omitzero"`
	WaitUSD      float64   `json:"waitUSD,omitempty"`
	SurchargeUSD float64   `json:"surchargeUSD,omitempty"`
	// Of an attempt on machines of a pool: which ones, by rank; where they are, for its data; and what it would have bought otherwise.
	Hosts   []string `json:"hosts,omitempty"`
	Place   string   `json:"place,omitempty"`
	Instead Instead  `json:"instead,omitzero"`
}

// place is where an attempt runs, as the optimizer knows it.
func (a Attempt) place() string {
	if a.Place != "" {
		return a.Place
	}
	return place(a.Offer)
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

// ClusterState is where a cluster is in its life. A cluster without a record is gone.
type ClusterState string

// The states of a cluster.
const (
	ClusterLaunching ClusterState = "launching" // intended; the cloud may or may not have it
	ClusterBooting   ClusterState = "booting"   // bought; not every node has dialled home
	ClusterUp        ClusterState = "up"
	ClusterDoomed    ClusterState = "doomed"    // will be taken; saving its work
	ClusterReleasing ClusterState = "releasing" // nothing needs it; being terminated
)

// Cluster is the record of machines that are bought or may have been, for one attempt. It exists
// from the intent to buy until they are gone for certain.
type Cluster struct {
	ID      string       `json:"id"`
	Job     string       `json:"job"`
	Task    int          `json:"task"`
	Attempt int          `json:"attempt"`
	Queue   string       `json:"queue"`
	State   ClusterState `json:"state"`
	Offer   cloud.Offer  `json:"offer"`
	MaxUSD  float64      `json:"maxUSD,omitempty"`
	VCPU    float64      `json:"vcpu"`            // of all nodes
	Hosts   []string     `json:"hosts,omitempty"` // of a pool, by rank
	// ReservedUSD was set aside of the job's budget; LeaseUntil is when it is used up.
	ReservedUSD float64   `json:"reservedUSD"`
	LeaseUntil  time.Time `json:"leaseUntil,omitzero"`
	Nodes       []Node    `json:"nodes"`
	Tries       int       `json:"tries,omitempty"` // launches that failed for a passing reason
	Intended    time.Time `json:"intended"`
	Launched    time.Time `json:"launched,omitzero"`
	Since       time.Time `json:"since"` // in this state
	// Seq, Command and Until are what the agents are told (wire.Work).
	Seq     int       `json:"seq"`
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitempty"` // of doom or release
	// MinPlan is the oldest plan that its task may go on under: asked for while it saves its work, as it will be taken. 0 is none.
	MinPlan int `json:"minPlan,omitempty"`
	// Leaving says that it is doomed because the broker leaves it, and why.
	Leaving Leaving `json:"leaving,omitempty"`
	// For is the claim that it is left for, where that is for others.
	For string `json:"for,omitempty"`
	// Outcome of the attempt, decided before the release.
	Outcome Outcome `json:"outcome,omitempty"`
	Started bool    `json:"started,omitempty"`
	// Up and Running are when every node had dialled home, and when every node ran the task.
	Up      time.Time `json:"up,omitzero"`
	Running time.Time `json:"running,omitzero"`
	// Ended is when it had succeeded.
	Ended time.Time `json:"ended,omitzero"`
	// PaidUSD is what all machines had cost by PricedAt, and RateUSD what an hour of one costs since; zero while nobody has said otherwise than
	// the offer, see charge.go.
	PaidUSD  float64   `json:"paidUSD,omitempty"`
	PricedAt time.Time `json:"pricedAt,omitzero"`
	RateUSD  float64   `json:"rateUSD,omitempty"`
}

// tell completes the record of an attempt by what its cluster has seen of it. That it succeeded is written to it with what it cost.
func (cl *Cluster) tell(a *Attempt) {
	if cl.Attempt != a.Number || cl.Task != a.Task {
		return
	}
	for _, t := range []struct{ to, from *time.Time }{{&a.Launched, &cl.Launched}, {&a.Up, &cl.Up}, {&a.Started, &cl.Running}} {
		if !t.from.IsZero() {
			*t.to = *t.from
		}
	}
	if !cl.Launched.IsZero() {
		a.MaxUSD = cl.MaxUSD
	}
	if a.RateUSD = 0; cl.rate() != a.Offer.USDPerHour {
		a.RateUSD = cl.rate()
	}
	if cl.Outcome == OutcomeSucceeded && a.Outcome == "" {
		a.Outcome, a.Ended = cl.Outcome, cl.Ended
	}
}

// tellTask completes the record of a task by what the cluster of its last attempt has seen of it: that it runs. Only of tasks in gangs, which look at
// each other, it is written to the task itself.
func (cl *Cluster) tellTask(t *Task) {
	if cl.Task == t.Index && cl.Attempt == t.Attempt && cl.Started && t.State == TaskLaunching {
		t.State, t.StartedAt = TaskRunning, cl.Running
	}
}

// Node is one machine of a cluster.
type Node struct {
	Machine string    `json:"machine,omitempty"`
	Address string    `json:"address,omitempty"` // empty until it dialled home
	Seen    time.Time `json:"seen,omitzero"`
	Started bool      `json:"started,omitempty"`
	Done    bool      `json:"done,omitempty"`    // succeeded
	Stopped bool      `json:"stopped,omitempty"` // saved and stopped on command
}

// Ledger is a job's money: only schedule writes it.
type Ledger struct {
	SpentUSD    float64 `json:"spentUSD"`
	ReservedUSD float64 `json:"reservedUSD"`
	// Outstanding attempts are admitted and not yet settled.
	Outstanding int `json:"outstanding"`
	// VCPU is what they hold of the queue's.
	VCPU float64 `json:"vcpu,omitempty"`
}

// Queue is the record of a queue: its quota and what is in use. Zero quotas are without limit.
type Queue struct {
	Name        string  `json:"name"`
	MaxRunning  int     `json:"maxRunning,omitempty"`
	MaxVCPU     float64 `json:"maxVCPU,omitempty"`
	Running     int     `json:"running"`
	VCPU        float64 `json:"vcpu"`
	Description string  `json:"description,omitempty"`
	// Parent is the queue whose quota it shares with its siblings; Inner says that this one is another's.
	Parent string `json:"parent,omitempty"`
	Inner  bool   `json:"inner,omitempty"`
	// Weight, DeservedVCPU, GuaranteedVCPU, Preempt and Closed: see QueueSettings.
	Weight         int     `json:"weight,omitempty"`
	DeservedVCPU   float64 `json:"deservedVCPU,omitempty"`
	GuaranteedVCPU float64 `json:"guaranteedVCPU,omitempty"`
	Preempt        bool    `json:"preempt,omitempty"`
	Closed         bool    `json:"closed,omitempty"`
	// Claims are those of its tasks and gangs that others were stopped for and that have not been admitted yet.
	Claims []Claim `json:"claims,omitempty"`
}

// Waiting is a task in its queue.
type Waiting struct {
	Job      string    `json:"job"`
	Task     int       `json:"task"`
	Priority int       `json:"priority,omitempty"`
	Since    time.Time `json:"since"`
	MinPlan  int       `json:"minPlan,omitempty"`
}

// Block is a location not to try until a time. Empty fields match everything.
type Block struct {
	Cloud        string     `json:"cloud"`
	Region       string     `json:"region,omitempty"`
	Zone         string     `json:"zone,omitempty"`
	InstanceType string     `json:"instanceType,omitempty"`
	Family       string     `json:"family,omitempty"` // of machine types, for quota
	Market       dag.Market `json:"market,omitempty"`
	Kind         cloud.Kind `json:"kind"`
	Reason       string     `json:"reason"`
	At           time.Time  `json:"at"`
	Until        time.Time  `json:"until"`
	// Count is how often in a row it was blocked; the time doubles with it.
	Count int `json:"count"`
}

// Covers says whether the block keeps an offer from being tried at a time.
func (b Block) Covers(o cloud.Offer, now time.Time) bool {
	return now.Before(b.Until) && b.Cloud == o.Cloud &&
		(b.Region == "" || b.Region == o.Region) &&
		(b.Zone == "" || b.Zone == o.Zone) &&
		(b.InstanceType == "" || b.InstanceType == o.InstanceType) &&
		(b.Family == "" || b.Family == Family(o.InstanceType)) &&
		(b.Market == "" || b.Market == market(o))
}

// MarketRecord is what was learned of one spot offer: its last price and how often it was taken.
type MarketRecord struct {
	Offer       string    `json:"offer"`
	USD         float64   `json:"usd,omitempty"`
	At          time.Time `json:"since,omitzero"` // since when it is the price; what older versions kept under "at" is when they looked
	Hours       float64   `json:"hours"`          // machine hours held
	Preemptions int       `json:"preemptions"`
	Launches    int       `json:"launches"`
	Refusals    int       `json:"refusals"`
	// Prices is what was learned of how the price changes.
	Prices pricing.Online `json:"prices,omitzero"`
}

// JobIndex is a job's line in the list of all jobs.
type JobIndex struct {
	ID        string    `json:"id"`
	Submitted time.Time `json:"submitted"`
}

// Seen marks an event as handled by a function.
type Seen struct {
	At time.Time `json:"at"`
}

package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// SparkFormat is the format of jobs that have Spark tasks. A broker that does not know them would run nothing and
// report success.
const SparkFormat = 2

// Job is the record of one submitted DAG. Its tasks are in the spec blob, and their phases in Progress. It changes
// with the job's state and plan, not with each task, so reading it is cheap.
type Job struct {
	ID        string `json:"id"`
	Digest    string `json:"digest"` // of the name and the submission's token; makes a submission idempotent
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace,omitempty"` // for sharing between users by weight
	// Format is SparkFormat if the job has Spark tasks, and otherwise 0, which means format 1.
	Format     int               `json:"format,omitempty"`
	Priority   int               `json:"priority,omitempty"`
	Objective  dag.Objective     `json:"objective"`
	Infeasible dag.Infeasible    `json:"infeasible,omitempty"`
	Patience   time.Duration     `json:"patience,omitempty"`
	State      apitypes.JobState `json:"state"`
	// Outcome is the state that an ending job will have. Reason is the reason why it did not succeed, or why it
	// waits.
	Outcome   apitypes.JobState `json:"outcome,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Submitted time.Time         `json:"submitted"`
	Finished  time.Time         `json:"finished,omitzero"`
	Deadline  time.Time         `json:"deadline,omitzero"`
	BudgetUSD float64           `json:"budgetUSD,omitempty"`
	Tasks     int               `json:"tasks"`
	Spec      Blob              `json:"spec"`
	// Was has the specs before updates of the job's services, oldest first. Update is the last update.
	Was    []Blob          `json:"was,omitempty"`
	Update apitypes.Update `json:"update,omitzero"`
	Plan   Blob            `json:"plan,omitzero"`    // the current plan; Version 0 means none yet
	Bids   Blob            `json:"bids,omitzero"`    // for that plan
	Waits  bool            `json:"waits,omitempty"`  // some of its tasks may wait for a better price
	Serves bool            `json:"serves,omitempty"` // some of its tasks are replicas of services
	// Arrays has the arrays of the spec, sorted by First. OnFailure is the spec's.
	Arrays    []Array       `json:"arrays,omitempty"`
	OnFailure dag.OnFailure `json:"onFailure,omitempty"`
	Started   bool          `json:"started,omitempty"` // tasks have been announced
	Rests     bool          `json:"rests,omitempty"`   // the job only waits in its queue: see JobIndex
	RetryAt   time.Time     `json:"retryAt,omitzero"`
	// PlanTries are the failures of the planner since the last plan.
	PlanTries PlanTries `json:"planTries,omitzero"`
	// StuckSince is the time since which a job that has started has no feasible plan.
	StuckSince time.Time `json:"stuckSince,omitzero"`
	// Estimates of the first plan, and of the same work on demand with each task where it is cheapest.
	PlannedUSD  float64 `json:"plannedUSD,omitempty"`
	OnDemandUSD float64 `json:"onDemandUSD,omitempty"`
	USD         float64 `json:"usd,omitempty"` // final cost
	Late        bool    `json:"late,omitempty"`
	Source      string  `json:"source,omitempty"` // bucket and key, or api
	// From lists the jobs from which this job takes tasks that it does not run again. Their outputs are below these
	// IDs.
	From []string `json:"from,omitempty"`
	// Simulated means that all of its machines were simulated, TimeScale seconds of wall time per second.
	Simulated bool    `json:"simulated,omitempty"`
	TimeScale float64 `json:"timeScale,omitempty"`
	// Suspensions are the suspensions by users, oldest first; see Suspended.
	Suspensions []apitypes.Suspension    `json:"suspensions,omitempty"`
	Heard       apitypes.IdempotencyKeys `json:"heard,omitempty"`
	// MinPlan is the oldest plan under which the job's tasks may continue. It is set when a job with a deadline is
	// resumed.
	MinPlan int `json:"minPlan,omitempty"`
	// Past has the data that remain of the job after its end.
	Past Past `json:"past,omitzero"`
}

// Array is an array of a job: its tasks First to First + Size − 1.
type Array struct {
	Name string `json:"name"`
	// MaxParallel is the number of members that run at the same time; 0 means all. AllowFailures is the number of
	// members that may fail.
	MaxParallel   int `json:"maxParallel,omitempty"`
	AllowFailures int `json:"allowFailures,omitempty"`
	First         int `json:"first"`
	Size          int `json:"size"`
}

// ArraysOf returns the arrays of a spec.
func ArraysOf(spec *dag.Job) (arrays []Array) {
	for i := range spec.Arrays {
		a := &spec.Arrays[i]
		arrays = append(arrays, Array{a.Name, a.MaxParallel, a.AllowFailures, a.First, a.Size})
	}
	return arrays
}

// ArrayOf returns the index of the array that a task is a member of, or −1.
func (j *Job) ArrayOf(task int) int {
	i, exact := slices.BinarySearchFunc(j.Arrays, task,
		func(a Array, task int) int { return cmp.Compare(a.First, task) })
	if !exact {
		i--
	}
	if i < 0 || task >= j.Arrays[i].First+j.Arrays[i].Size {
		return -1
	}
	return i
}

// Continues reports whether the job may continue after one of its tasks has failed for good.
func (j *Job) Continues() bool {
	return j.OnFailure == dag.ContinueJob ||
		slices.ContainsFunc(j.Arrays, func(a Array) bool { return a.AllowFailures > 0 })
}

// Progress is the phase of each task of a job. Only advance writes it.
type Progress struct {
	// Format is PackedFormat if Phases are written as runs, which is the case from packedFrom tasks on. It is
	// ChunkedFormat if some phases are PhaseChunked.
	Format    int    `json:"format,omitempty"`
	Phases    Phases `json:"phases"` // one Phase per task
	Succeeded int    `json:"succeeded"`
	// Reason is the first failure that will make a continuing job fail.
	Reason string `json:"reason,omitempty"`
}

// Phase is the state of a task that advance keeps, one byte in Progress.Phases.
type Phase = byte

// The phases of a task.
const (
	PhaseWaiting   Phase = 'w' // for its parents
	PhaseReady     Phase = 'r' // announced; schedule and provision handle it
	PhaseSucceeded Phase = 's'
	PhaseFailed    Phase = 'f' // failed, and not tried again
	PhaseSkipped   Phase = 'k' // never ran, because a task that it depends on failed
	PhaseExcused   Phase = 'e' // the same, but its array allows the failure
	PhaseChunked   Phase = 'c' // runs in the attempt of the last ready member before it; see Task.Chunk
)

// IsOpen reports whether a task in a phase will still run, or runs.
func IsOpen(p Phase) bool { return p == PhaseWaiting || p == PhaseReady || p == PhaseChunked }

// NeverRuns reports whether a task in a phase has failed for good, or will not run because of a failure.
func NeverRuns(p Phase) bool { return p == PhaseFailed || p == PhaseSkipped || p == PhaseExcused }

// Ledger is a job's money. Only schedule writes it, except for Rests.
type Ledger struct {
	SpentUSD    float64 `json:"spentUSD"`
	ReservedUSD float64 `json:"reservedUSD"`
	// Outstanding is the number of attempts that are admitted and not yet settled.
	Outstanding int `json:"outstanding"`
	// Shared is the number of those that run on workers. They hold nothing of the queue.
	Shared int `json:"shared,omitempty"`
	// VCPU is the number of vCPUs of the queue that they hold.
	VCPU float64 `json:"vcpu,omitempty"`
	// Hold is the amount of other resources that they hold.
	Hold apitypes.Amounts `json:"hold,omitempty"`
	// Settled means that the job is ending and holds nothing, so nothing more is admitted.
	Settled bool `json:"settled,omitempty"`
	// Rests means that the job rests, like Job.Rests. It is also here because the admission of a task writes this
	// record.
	Rests bool `json:"rests,omitempty"`
}

// Slots returns the number of running tasks of its queue as which the job counts.
func (l *Ledger) Slots() int { return max(l.Outstanding-l.Shared, 0) }

// JobIndex is a job's line in the list of all jobs, and in the list of unfinished jobs. In the latter list, a job
// that holds nothing and only waits in its queue rests until RestsUntil. Until then only its line is read, so waiting
// costs nearly nothing. A decision that changes the job, or makes it hold something, wakes it (Decision.PutJob,
// Decision.Awake).
type JobIndex struct {
	ID         string    `json:"id"`
	Submitted  time.Time `json:"submitted"`
	Queue      string    `json:"queue,omitempty"`
	RestsUntil time.Time `json:"restsUntil,omitzero"`
}

// Seen marks an event as handled by a function.
type Seen struct {
	At time.Time `json:"at"`
}

// DefaultQueueName is the queue of jobs that name none.
const DefaultQueueName = "default"

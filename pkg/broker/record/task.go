package record

import (
	"cmp"
	"slices"
	"time"
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

// maxDoublings keeps the time that a task keeps its machines from overflowing.
const maxDoublings = 16

// Keeps is how long a task keeps its machines from when it runs on them before they may be another's: as long as a
// start elsewhere takes, so that it has done more than it loses, and twice as long each time that it was stopped.
// So a task is stopped no more often than its work can be halved down to a start.
func (t Task) Keeps(restart time.Duration) time.Duration {
	return restart << min(len(t.YieldedTo), maxDoublings)
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

package record

import (
	"cmp"
	"slices"
	"time"
)

// TaskState is the state of a task from the time at which it is ready until it has finished.
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

// Task is the record of a task that became ready. Only the cluster's record states that the task is running
// (Cluster.UpdateTask).
type Task struct {
	Job     string    `json:"job"`
	Index   int       `json:"index"`
	State   TaskState `json:"state"`
	Try     int       `json:"try"`     // number of announcements: 1, plus retries after failures of the task
	Attempt int       `json:"attempt"` // number of the last attempt
	// Plan is the plan's version under which it was admitted. MinPlan is the oldest version under which it may be
	// admitted.
	Plan    int `json:"plan,omitempty"`
	MinPlan int `json:"minPlan,omitempty"`
	// Checkpoint and Progress are the work that the next attempt continues.
	Checkpoint Saved   `json:"checkpoint,omitzero"`
	Progress   float64 `json:"progress,omitempty"`
	// LostHours is the work in hours that it did on spot machines and lost because their cloud took them.
	LostHours float64 `json:"lostHours,omitempty"`
	// Silent is the number of attempts in a row that lost an agent without a new checkpoint and without an
	// interruption by the cloud.
	Silent int `json:"silent,omitempty"`
	// Faults is the number of attempts in a row that ended because a disk was full, without a new checkpoint.
	Faults    int       `json:"faults,omitempty"`
	ReadyAt   time.Time `json:"readyAt"`
	StartedAt time.Time `json:"startedAt,omitzero"` // of the last attempt that started
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Place     string    `json:"place,omitempty"`  // place where it runs or where its outputs are, such as aws:us-east-1
	Output    string    `json:"output,omitempty"` // location of its outputs (Config.At)
	// Listed means that a service wrote the outputs. They have no manifest, and readers list them.
	Listed bool   `json:"listed,omitempty"`
	Reason string `json:"reason,omitempty"`
	// OnDemand means that it must not use spot any more, because it might miss its deadline.
	OnDemand bool `json:"onDemand,omitempty"`
	// WaitSince is the time since which it waits for a better price. WaitUSD is the market's price at that time, in
	// USD per hour.
	WaitSince time.Time `json:"waitSince,omitzero"`
	WaitUSD   float64   `json:"waitUSD,omitempty"`
	// Gang is the gang that it belongs to; empty means none.
	Gang string `json:"gang,omitempty"`
	// Alone means that a task of a gang restarts alone, while the others continue.
	Alone bool `json:"alone,omitempty"`
	// Joins is the running gang that the task joins with additional machines; empty means none.
	Joins string `json:"joins,omitempty"`
	// YieldedTo lists the claims for which it was stopped, one for each time.
	YieldedTo []string `json:"yieldedTo,omitempty"`
	// Service is the service that it is a replica of; empty means none.
	Service string `json:"service,omitempty"`
	// Misses is the number of attempts of a replica in a row that ended before it was ready for long. It is not tried
	// again before NotBefore.
	Misses    int       `json:"misses,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Chunk is the number of members of its array after it that run in its attempt, one after the other, in the room
	// of the task. They get their own records when they have ended.
	Chunk int `json:"chunk,omitempty"`
	// Hours is the expected time of the last attempt, if it differs from the plan because it runs on machines of a
	// pool.
	Hours float64 `json:"hours,omitempty"`
}

// Saved is a complete checkpoint.
type Saved struct {
	Seq    int       `json:"seq"`
	Prefix string    `json:"prefix"` // its location (Config.At)
	At     time.Time `json:"at"`
}

// maxDoublings prevents an overflow in Keeps.
const maxDoublings = 16

// Keeps returns the time that a task may run before its machines may be given to another task: the time of a restart,
// so that it has done more work than it loses, and twice as long for each time that it was stopped before. So the
// number of stops is at most logarithmic in its work.
func (t Task) Keeps(restart time.Duration) time.Duration {
	return restart << min(len(t.YieldedTo), maxDoublings)
}

// UpdateTasks updates tasks, sorted by index, with the states of their clusters.
func UpdateTasks(clusters []Cluster, tasks []Task) {
	for i := range clusters {
		if j, ok := TaskAt(tasks, clusters[i].Task); ok {
			clusters[i].UpdateTask(&tasks[j])
		}
	}
}

// TaskAt finds a task by its index in the job.
func TaskAt(tasks []Task, index int) (at int, ok bool) {
	return slices.BinarySearchFunc(tasks, index, func(t Task, index int) int { return cmp.Compare(t.Index, index) })
}

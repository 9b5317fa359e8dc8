package apitypes

import (
	"cmp"
	"time"
)

// WaitingList is a list of waiting tasks.
type WaitingList struct {
	Waiting []Waiting `json:"waiting" nullable:"false" doc:"The tasks, the next one first"`
}

// Waiting is a task in its queue.
type Waiting struct {
	Job      string    `json:"job"`
	Task     int       `json:"task"`
	Priority int       `json:"priority,omitempty"`
	Since    time.Time `json:"since"`
	MinPlan  int       `json:"minPlan,omitempty"`
}

// Compare sorts waiting tasks by priority, the highest first, then by age, the oldest first.
func (w Waiting) Compare(x Waiting) int {
	return cmp.Or(cmp.Compare(x.Priority, w.Priority), w.Since.Compare(x.Since))
}

// Why explains why a job waits.
type Why struct {
	Job    string    `json:"job" doc:"ID of the job"`
	Queue  string    `json:"queue" doc:"Queue it waits in"`
	State  JobState  `json:"state" doc:"State of the job"`
	Reason string    `json:"reason" doc:"Why it waits, in a sentence; or that no task of it waits for the queue"`
	Tasks  []WhyTask `json:"tasks" nullable:"false" doc:"Its tasks that wait in the queue, the next one first; at most 20"`
	// Waiting is the number of its tasks that wait in the queue.
	Waiting int `json:"waiting" doc:"Number of its tasks that wait in the queue"`
}

// WhyTask explains why one task waits.
type WhyTask struct {
	Task    string    `json:"task" doc:"Name of the task"`
	Since   time.Time `json:"since" doc:"When it could have started, or its job was resumed"`
	Ahead   int       `json:"ahead" doc:"Tasks of other jobs before it by priority and age, without those of suspended jobs"`
	Reasons []string  `json:"reasons" nullable:"false" doc:"What prevents its start, the most important first"`
}

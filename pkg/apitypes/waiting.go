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

// Compare orders those who wait in a queue: the more urgent, then the older.
func (w Waiting) Compare(x Waiting) int {
	return cmp.Or(cmp.Compare(x.Priority, w.Priority), w.Since.Compare(x.Since))
}

// Why tells why a job waits.
type Why struct {
	Job    string    `json:"job" doc:"ID of the job"`
	Queue  string    `json:"queue" doc:"Queue it waits in"`
	State  JobState  `json:"state" doc:"State of the job"`
	Reason string    `json:"reason" doc:"Why it waits, in a sentence; that it does not, if nothing of it waits for the queue"`
	Tasks  []WhyTask `json:"tasks" nullable:"false" doc:"Its tasks that wait in the queue, the next one first; at most 20"`
	// Waiting is how many of its tasks wait in the queue.
	Waiting int `json:"waiting" doc:"How many of its tasks wait in the queue"`
}

// WhyTask is why one of its tasks does.
type WhyTask struct {
	Task    string    `json:"task" doc:"Name of the task"`
	Since   time.Time `json:"since" doc:"When it could have begun, or its job was resumed"`
	Ahead   int       `json:"ahead" doc:"Tasks of other jobs before it in the order of priority and age, those of suspended jobs left out"`
	Reasons []string  `json:"reasons" nullable:"false" doc:"What keeps it, the most important first"`
}

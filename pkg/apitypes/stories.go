package apitypes

import (
	"slices"
	"time"
)

// Story tells what happened to a job and why, in the order of time.
type Story struct {
	Job     JobView   `json:"job" doc:"The job"`
	Entries []Entry   `json:"entries" doc:"What happened, in the order of time"`
	Choices []TaskWhy `json:"choices,omitempty" doc:"For each task the choice in force and the runners-up"`
	Next    int       `json:"next,omitempty" doc:"Index of the first task that this does not tell of, where there is one: after of the call that continues it"`
}

// Entry is one thing that happened.
type Entry struct {
	At   time.Time `json:"at" doc:"When"`
	Kind string    `json:"kind" doc:"submitted, planned, waits, launched, doubted, refused, started, visited, kept, preempted, moved, lost, succeeded, failed, blocked, budget, suspended, resumed, updated, placement, cancelled or finished"`
	Task string    `json:"task,omitempty" doc:"Task it happened to"`
	Text string    `json:"text" doc:"What happened and why, in a sentence"`
	USD  float64   `json:"usd,omitempty" doc:"What it cost, USD"`
}

// TaskWhy is why a task runs where it does.
type TaskWhy struct {
	Task    string   `json:"task" doc:"Name of the task"`
	Chosen  string   `json:"chosen" doc:"The offer chosen"`
	USD     float64  `json:"usd" doc:"Expected cost there, USD"`
	Hours   float64  `json:"hours" doc:"Expected time there, hours"`
	Runners []Runner `json:"runners,omitempty" doc:"The next best, and what each would have added to the plan"`
}

// Sort puts what happened into the order of time.
func (s *Story) Sort() {
	slices.SortStableFunc(s.Entries, func(x, y Entry) int { return x.At.Compare(y.At) })
}

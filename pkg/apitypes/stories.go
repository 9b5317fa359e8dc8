package apitypes

import (
	"slices"
	"time"
)

// Story is the history of a job with reasons, in chronological order.
type Story struct {
	Job     JobView   `json:"job" doc:"The job"`
	Entries []Entry   `json:"entries" doc:"What happened, in chronological order"`
	Choices []TaskWhy `json:"choices,omitempty" doc:"For each task the current choice and the runners-up"`
	Next    int       `json:"next,omitempty" doc:"If there are more tasks: index of the next one, the value of after for the next call"`
}

// Entry is one event in a job's history.
type Entry struct {
	At   time.Time `json:"at" doc:"When"`
	Kind string    `json:"kind" doc:"submitted, planned, waits, launched, doubted, refused, started, visited, kept, preempted, moved, lost, succeeded, failed, blocked, budget, suspended, resumed, updated, placement, cancelled, finished or notified"`
	Task string    `json:"task,omitempty" doc:"Task it happened to"`
	Text string    `json:"text" doc:"What happened and why, in a sentence"`
	USD  float64   `json:"usd,omitempty" doc:"What it cost, USD"`
}

// TaskWhy explains why a task runs where it does.
type TaskWhy struct {
	Task    string   `json:"task" doc:"Name of the task"`
	Chosen  string   `json:"chosen" doc:"The offer chosen"`
	USD     float64  `json:"usd" doc:"Expected cost there, USD"`
	Hours   float64  `json:"hours" doc:"Expected time there, hours"`
	Runners []Runner `json:"runners,omitempty" doc:"The next best, and what each would have added to the plan"`
}

// Sort sorts the entries by time.
func (s *Story) Sort() {
	slices.SortStableFunc(s.Entries, func(x, y Entry) int { return x.At.Compare(y.At) })
}

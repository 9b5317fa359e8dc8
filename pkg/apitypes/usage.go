package apitypes

import "time"

// UsageView is the past use of queues.
type UsageView struct {
	Now time.Time `json:"now" doc:"The broker's clock"`
	Usage
}

// Usage is the use of queues over time, in steps of equal length.
type Usage struct {
	From      time.Time    `json:"from" doc:"When the first step begins"`
	StepHours float64      `json:"stepHours" doc:"Length of a step, hours"`
	Queues    []QueueUsage `json:"queues" nullable:"false" doc:"Queues that held something, by name"`
	Simulated bool         `json:"simulated,omitempty" doc:"All of it was simulated: nothing was bought"`
	Partial   bool         `json:"partial,omitempty" doc:"Only the newest jobs or attempts are included, because there are too many"`
}

// QueueUsage is the use of one queue: the mean of each step.
type QueueUsage struct {
	Name    string    `json:"name" doc:"Name of the queue"`
	Running []float64 `json:"running" nullable:"false" doc:"Tasks that held capacity, by step"`
	VCPUs   []float64 `json:"vcpus" nullable:"false" doc:"vCPUs that they held, by step"`
}

package apitypes

import "time"

// FrontierView is what a job costs by when it is to be done.
type FrontierView struct {
	Name       string          `json:"name" doc:"Name of the job"`
	Points     []FrontierPoint `json:"points" nullable:"false" doc:"From the fastest and dearest to the slowest and cheapest; none: no plan keeps the limits"`
	Complete   bool            `json:"complete" doc:"There are no others, proven"`
	Unexplored []Gap           `json:"unexplored" nullable:"false" doc:"Between which points there may be others"`
	Millis     float64         `json:"millis" doc:"Time that it took, milliseconds"`
}

// FrontierPoint is a plan that no other beats in both time and money.
type FrontierPoint struct {
	Hours    float64 `json:"hours" doc:"With a deadline of so many hours it costs this"`
	USD      float64 `json:"usd" doc:"Expected cost, USD"`
	BoundUSD float64 `json:"boundUSD" doc:"No plan as fast costs less, USD"`
	Spot     int     `json:"spot" doc:"How many of its tasks are on spot machines"`
	Tasks    int     `json:"tasks" doc:"How many are placed"`
}

// Gap is a part of the plane between two points that has not been searched. A point missing there takes between
// FromHours and ToHours and costs between FromUSD and ToUSD.
type Gap struct {
	FromHours float64 `json:"fromHours"`
	ToHours   float64 `json:"toHours"`
	FromUSD   float64 `json:"fromUSD"`
	ToUSD     float64 `json:"toUSD"`
}

// PlanView is a plan as users see it.
type PlanView struct {
	Name        string     `json:"name" doc:"Name of the job"`
	Objective   string     `json:"objective" doc:"cost or makespan"`
	Status      string     `json:"status" enum:"optimal,feasible,infeasible" doc:"optimal is proven; feasible says by its bound how far off it can be"`
	Message     string     `json:"message,omitempty" doc:"Why there is no plan"`
	USD         float64    `json:"usd" doc:"Expected cost, USD"`
	Hours       float64    `json:"hours" doc:"Expected time from start to end, hours"`
	Bound       float64    `json:"bound" doc:"No plan is better than this, in the objective's unit"`
	OnDemandUSD float64    `json:"onDemandUSD" doc:"The same work on demand at its cheapest, with the data it moves, USD"`
	Late        bool       `json:"late,omitempty" doc:"The deadline cannot be kept: this is the fastest plan"`
	Millis      float64    `json:"millis" doc:"Time that planning took, milliseconds"`
	Tasks       []PlanTask `json:"tasks" nullable:"false" doc:"The tasks in the order of the file"`
	Warnings    []string   `json:"warnings,omitempty" doc:"What the file asks for that is read but not acted on"`
	Notes       []string   `json:"notes,omitempty" doc:"Rules of placement that do not hold where the plan has its tasks"`
}

// PlanTask is where a plan runs a task.
type PlanTask struct {
	Name       string   `json:"name" doc:"Name of the task"`
	After      []int    `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer      string   `json:"offer,omitempty" doc:"Where it would run"`
	Nodes      int      `json:"nodes" doc:"Number of machines"`
	Service    string   `json:"service,omitempty" doc:"The service that it is a replica of: it has no end, and an hour of it is counted"`
	USDPerHour float64  `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	USD        float64  `json:"usd,omitempty" doc:"Expected cost, USD"`
	Hours      float64  `json:"hours,omitempty" doc:"Expected time, hours"`
	Runners    []Runner `json:"runners,omitempty" doc:"The next best places, and what each would add to the plan"`
	Time       *Figure  `json:"time,omitempty" doc:"How long the task is taken to run there, and where that is from"`
}

// PlanHead is the story of one plan without its choices, kept for explanations.
type PlanHead struct {
	Version     int       `json:"version"`
	At          time.Time `json:"at"`
	Reason      string    `json:"reason,omitempty"`
	Status      string    `json:"status"`
	Message     string    `json:"message,omitempty"`
	USD         float64   `json:"usd"`
	Hours       float64   `json:"hours"`
	Objective   float64   `json:"objective"`
	Bound       float64   `json:"bound"`
	OnDemandUSD float64   `json:"onDemandUSD"`
	Late        bool      `json:"late,omitempty"`
	Millis      float64   `json:"millis"`
}

// Runner is a choice that a plan did not make.
type Runner struct {
	ID    string  `json:"id"`
	USD   float64 `json:"usd"`   // of the task there
	Hours float64 `json:"hours"` // of the task there
	// Adds is how much worse the whole plan would be, in its objective's unit.
	Adds float64 `json:"adds"`
}

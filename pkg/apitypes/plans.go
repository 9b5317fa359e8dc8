package apitypes

import "time"

// FrontierView is the trade-off between a job's cost and its finishing time.
type FrontierView struct {
	Name       string          `json:"name" doc:"Name of the job"`
	Points     []FrontierPoint `json:"points" nullable:"false" doc:"From the fastest and most expensive to the slowest and cheapest; empty if no plan meets the limits"`
	Complete   bool            `json:"complete" doc:"It is proven that there are no other points"`
	Unexplored []Gap           `json:"unexplored" nullable:"false" doc:"Between which points there may be others"`
	Millis     float64         `json:"millis" doc:"Computing time, milliseconds"`
}

// FrontierPoint is a Pareto-optimal plan: no other plan is both faster and cheaper.
type FrontierPoint struct {
	Hours    float64 `json:"hours" doc:"Deadline of this plan, hours"`
	USD      float64 `json:"usd" doc:"Expected cost, USD"`
	BoundUSD float64 `json:"boundUSD" doc:"Lower bound: no plan as fast costs less, USD"`
	Spot     int     `json:"spot" doc:"Number of tasks on spot machines"`
	Tasks    int     `json:"tasks" doc:"Number of tasks placed"`
}

// Gap is an area between two points that has not been searched. A point missing there takes between FromHours and
// ToHours and costs between FromUSD and ToUSD.
type Gap struct {
	FromHours float64 `json:"fromHours"`
	ToHours   float64 `json:"toHours"`
	FromUSD   float64 `json:"fromUSD"`
	ToUSD     float64 `json:"toUSD"`
}

// PlanView is a plan as users see it.
type PlanView struct {
	Name          string     `json:"name" doc:"Name of the job"`
	Objective     string     `json:"objective" doc:"cost, makespan or weights"`
	Status        string     `json:"status" enum:"optimal,feasible,infeasible" doc:"optimal is proven; for feasible, bound shows how far from optimal it can be"`
	Message       string     `json:"message,omitempty" doc:"Why there is no plan"`
	USD           float64    `json:"usd" doc:"Expected cost, USD"`
	Hours         float64    `json:"hours" doc:"Expected time from start to end, hours"`
	Bound         float64    `json:"bound" doc:"No plan is better than this, in the objective's unit"`
	OnDemandUSD   float64    `json:"onDemandUSD" doc:"Cost of the same work on the cheapest on-demand machines, including data transfer, USD"`
	DeadlineHours float64    `json:"deadlineHours,omitempty" doc:"The time in which it must finish, hours; 0 without a deadline"`
	Late          bool       `json:"late,omitempty" doc:"The deadline cannot be met; this is the fastest plan"`
	Millis        float64    `json:"millis" doc:"Planning time, milliseconds"`
	Tasks         []PlanTask `json:"tasks" nullable:"false" doc:"The tasks in the order of the file"`
	Warnings      []string   `json:"warnings,omitempty" doc:"Settings of the file that are read but have no effect"`
	Notes         []string   `json:"notes,omitempty" doc:"Rules that the plan does not enforce, offers that it leaves out, and tasks that their timeout would end"`
	Simulated     bool       `json:"simulated,omitempty" doc:"The broker's machines are simulated: nothing would be bought"`
}

// PlanTask is where a plan runs a task.
type PlanTask struct {
	Name       string   `json:"name" doc:"Name of the task"`
	After      []int    `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer      string   `json:"offer,omitempty" doc:"Where it would run"`
	Nodes      int      `json:"nodes" doc:"Number of machines"`
	Service    string   `json:"service,omitempty" doc:"The service of which it is a replica; since it does not end, one hour is counted"`
	USDPerHour float64  `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	USD        float64  `json:"usd,omitempty" doc:"Expected cost, USD"`
	Hours      float64  `json:"hours,omitempty" doc:"Expected time, hours"`
	Runners    []Runner `json:"runners,omitempty" doc:"The next best places, and how much each would add to the plan"`
	Time       *Figure  `json:"time,omitempty" doc:"Assumed run time there, and its source"`
	Estimator  string   `json:"estimator,omitempty" doc:"Source of the run time, as in time.from"`
}

// PlanHead is the summary of a plan, without its choices. It is kept for explanations.
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

// Runner is an alternative that the planner rejected for a task.
type Runner struct {
	ID    string  `json:"id"`
	USD   float64 `json:"usd"`   // cost of the task there
	Hours float64 `json:"hours"` // run time of the task there
	// Adds is the amount by which the whole plan would be worse, in the unit of its objective.
	Adds float64 `json:"adds"`
}

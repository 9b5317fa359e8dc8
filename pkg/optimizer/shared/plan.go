package shared

import (
	"encoding/json"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Plan is the bought instances and the times of all tasks.
type Plan struct {
	Instances []Instance
	// Tasks has one entry for each task, in the order of Model.Tasks.
	Tasks []Run
	// USD is the cost: billed hours at the price of each instance, and moved data.
	USD float64
	// Hours is the end of the last task.
	Hours float64
}

// Instance is one bought machine. It is requested at From, runs tasks from From plus its boot time on, and ends at
// To.
type Instance struct {
	Machine  int // index into Model.Machines
	From, To float64
}

// Run is the time and the instance of one task's run.
type Run struct {
	On       int // index into Plan.Instances
	From, To float64
}

// Solution is the result for a [Model].
type Solution struct {
	Status optimizer.Status
	// Plan is nil if Status is Infeasible.
	Plan *Plan
	// Bound is at most the objective (USD or hours) of any valid plan. Status is Optimal if the objective
	// is within a relative 2e-9 of it.
	Bound float64
	// Millis is the solving time in milliseconds.
	Millis float64
	// Message explains Infeasible to the user.
	Message string
	// Late is true if Status is Infeasible because even the fastest plan misses the deadline.
	Late  bool
	model *Model
}

type solutionJSON struct {
	Status   optimizer.Status   `json:"status"`
	USD      *float64           `json:"usd,omitempty"`
	Hours    *float64           `json:"hours,omitempty"`
	Bound    *float64           `json:"bound,omitempty"`
	Millis   float64            `json:"millis"`
	Machines []instanceJSON     `json:"machines,omitzero"`
	Tasks    map[string]runJSON `json:"tasks,omitzero"`
	Message  string             `json:"message,omitempty"`
}

type instanceJSON struct {
	Machine string  `json:"machine"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

type runJSON struct {
	On   int     `json:"on"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// MarshalJSON returns the form that `tradewind-lab optimize` prints, with numbers in full precision.
func (s *Solution) MarshalJSON() ([]byte, error) {
	w := solutionJSON{Status: s.Status, Millis: s.Millis, Message: s.Message}
	if s.Plan == nil {
		return json.Marshal(w)
	}
	w.USD, w.Hours, w.Bound = &s.Plan.USD, &s.Plan.Hours, &s.Bound
	w.Machines = make([]instanceJSON, 0, len(s.Plan.Instances))
	for _, i := range s.Plan.Instances {
		w.Machines = append(w.Machines, instanceJSON{s.model.Machines[i.Machine].ID, i.From, i.To})
	}
	w.Tasks = make(map[string]runJSON, len(s.Plan.Tasks))
	for t, r := range s.Plan.Tasks {
		w.Tasks[s.model.Tasks[t].ID] = runJSON(r)
	}
	return json.Marshal(w)
}

package optimizer

import (
	"encoding/json"
	"errors"
	"time"
)

// Status is what a [Solution] proves.
type Status string

const (
	// Optimal means that no plan is better by more than a relative 1e-9.
	Optimal Status = "optimal"
	// Feasible means that the search stopped early. The plan satisfies every bound, and no plan has an objective
	// below Solution.Bound.
	Feasible Status = "feasible"
	// Infeasible means that no plan satisfies the bounds; see Solution.Message and Solution.Reason.
	Infeasible Status = "infeasible"
)

// ErrUndecided is returned if the search stopped before it found a plan that satisfies the bounds or proved that
// there is none.
var ErrUndecided = errors.New("optimizer: stopped before a plan was found or ruled out")

// Options configure one call of [Solve]. The zero value searches until the optimum is proven.
type Options struct {
	// TimeLimit stops the search and returns the best plan so far with its proven bound; zero means no limit. Plans
	// found under a time limit may differ from run to run; use WorkLimit to avoid that.
	TimeLimit time.Duration
	// WorkLimit stops the search after about this number of elementary steps (table entries touched), at the same
	// step in every run; zero means no limit.
	WorkLimit int64
	// Gap accepts a plan as soon as it is proven to be within this fraction of the optimum (0.01 is one per cent).
	// The status of such a plan is Feasible unless it is proven optimal.
	Gap float64
	// Hint is a plan to start from, with one candidate index per task as in Solution.Picks, for example the current
	// plan before a price changed. An index out of range, such as -1, leaves that task open.
	Hint []int
	// Now is the clock for TimeLimit and Solution.Millis; nil is time.Now.
	Now func() time.Time
}

// Solution is the result for a [Model].
type Solution struct {
	Status Status
	// Objective is the plan's USD, Hours, KgCO2 or weighted sum, whichever the model minimises.
	Objective float64
	// Bound is a proven lower bound on the objective of all plans that satisfy the model's bounds. It equals
	// Objective if Status is Optimal.
	Bound float64
	// USD is the plan's total cost, for tasks and transfers.
	USD float64
	// Hours is the plan's makespan.
	Hours float64
	// KgCO2 is the emissions of the plan's tasks, from the model's values.
	KgCO2 float64
	// Choice maps each task's id to the id of its chosen candidate.
	Choice map[string]string
	// Picks is Choice by index: Picks[t] indexes Model.Tasks[t].Candidates. It is nil if Status is Infeasible, and it
	// is not part of the JSON form.
	Picks []int
	// Millis is the solving time in milliseconds by Options.Now.
	Millis float64
	// Message explains a status other than Optimal to the user.
	Message string
	// Reason explains Infeasible to programs; otherwise it is nil.
	Reason *Reason
}

// solutionJSON is the JSON form of Solution. Numbers that an infeasible solution does not have are omitted.
type solutionJSON struct {
	Status    Status            `json:"status"`
	Objective *float64          `json:"objective,omitempty"`
	Bound     *float64          `json:"bound,omitempty"`
	USD       *float64          `json:"usd,omitempty"`
	Hours     *float64          `json:"hours,omitempty"`
	KgCO2     float64           `json:"kgCO2,omitempty"`
	Choice    map[string]string `json:"choice,omitzero"`
	Millis    float64           `json:"millis"`
	Message   string            `json:"message,omitempty"`
	Reason    *Reason           `json:"reason,omitempty"`
}

// MarshalJSON returns the form that `tradewind optimize` prints.
func (s Solution) MarshalJSON() ([]byte, error) {
	w := solutionJSON{Status: s.Status, Millis: s.Millis, Message: s.Message, Reason: s.Reason, KgCO2: s.KgCO2}
	if s.Status != Infeasible {
		w.Objective, w.Bound, w.USD, w.Hours = &s.Objective, &s.Bound, &s.USD, &s.Hours
		w.Choice = s.Choice
		if w.Choice == nil {
			w.Choice = map[string]string{}
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON parses that form. It leaves Picks nil.
func (s *Solution) UnmarshalJSON(text []byte) error {
	var w solutionJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*s = Solution{
		Status: w.Status, Choice: w.Choice, Millis: w.Millis, Message: w.Message, Reason: w.Reason, KgCO2: w.KgCO2,
	}
	for _, f := range []struct {
		to   *float64
		from *float64
	}{{&s.Objective, w.Objective}, {&s.Bound, w.Bound}, {&s.USD, w.USD}, {&s.Hours, w.Hours}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return nil
}

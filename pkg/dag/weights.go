package dag

import (
	"cmp"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// maxWeight is far above any value of an hour in USD.
const maxWeight = 1e9

// ParseWeight reads a weight of an objective.
func ParseWeight(s string) (float64, error) {
	v, err := jobtext.ParseNumber(s)
	if err != nil {
		return 0, fault.New(fault.Quote(s)+" is not a number", "write a weight such as 1 or 0.5")
	}
	return v, checkWeight(v)
}

func checkWeight(v float64) error {
	if !(v >= 0 && v <= maxWeight) {
		return fault.New(jobtext.FormatNumber(v)+" is not a weight from 0 to 1e9", "")
	}
	return nil
}

// Check returns an error if no plan is better than another with these weights.
func (w *Weights) Check() error {
	if w.Cost == 0 && w.Time == 0 {
		return fault.New("are all 0", "give the cost or the time a weight above 0")
	}
	return cmp.Or(fault.Within("cost", checkWeight(w.Cost)), fault.Within("time", checkWeight(w.Time)))
}

// CheckWeights returns an error if the job's objective needs weights and has none, or has weights that it does not use.
// field is that of the fault.
func (j *Job) CheckWeights() (field string, err error) {
	switch {
	case j.Objective == MinimizeWeighted && j.Weights == nil:
		return "objective", fault.New("needs weights", "add weights: {cost: 1, time: 0.5}")
	case j.Objective != MinimizeWeighted && j.Weights != nil:
		return "weights", fault.New("cannot be combined with objective: "+string(j.Objective),
			"write objective: "+string(MinimizeWeighted)+", or leave objective out")
	case j.Weights != nil:
		return "weights", j.Weights.Check()
	}
	return "", nil
}

// validateWeights is CheckWeights with the field in the error.
func (j *Job) validateWeights() error {
	field, err := j.CheckWeights()
	return fault.Within(field, err)
}

package history

import (
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Where the run time that a task is planned with is from.
const (
	FromFile    = "file"    // the job file says it
	FromHistory = "history" // earlier runs of the task
	FromLike    = "like"    // earlier runs of tasks whose names differ in numbers only
	FromScaled  = "scaled"  // earlier runs on another accelerator, by what both can do
	FromNothing = "default" // nothing is known: an hour
)

// Figure is the run time that a task is planned with on an offer, and what earlier runs say of it.
type Figure struct {
	Hours float64 `json:"hours" doc:"How long the whole task is taken to run there, hours"`
	From  string  `json:"from" enum:"file,history,like,scaled,default" doc:"Where that is from: the job file, earlier runs of the task, of tasks like it, on another accelerator, or nothing known"`
	// Earlier runs, where there were any:
	Runs         int     `json:"runs,omitempty" doc:"Earlier runs that are known of"`
	LearnedHours float64 `json:"learnedHours,omitempty" doc:"What they let expect, hours"`
	LowHours     float64 `json:"lowHours,omitempty" doc:"One in ten runs is shorter, hours"`
	HighHours    float64 `json:"highHours,omitempty" doc:"One in ten runs is longer, hours"`
}

// FigureOf says what a task is planned with on an offer.
func FigureOf(t *dag.Task, o cloud.Offer) Figure {
	f := Figure{Hours: t.Time.For(o.InstanceType, o.Accelerator, o.AccelCount).Hours(), From: FromFile}
	if t.Time.Default == 0 && len(t.Time.On) == 0 {
		f.From = FromNothing
	}
	if t.Learned == nil {
		return f
	}
	s, there := t.Learned.On[Machine(o.InstanceType, o.Accelerator, o.AccelCount)]
	if !there {
		s = t.Learned.On[""]
	}
	f.Runs, f.LearnedHours, f.LowHours, f.HighHours = s.Runs, s.Hours, s.Low, s.High
	switch {
	case !t.Learned.Used:
	case s.Scaled:
		f.From = FromScaled
	case t.Learned.Like:
		f.From = FromLike
	default:
		f.From = FromHistory
	}
	return f
}

package apitypes

import "time"

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

// History is what earlier jobs of one name have shown of their tasks.
type History struct {
	Job string    `json:"job" doc:"Name of the jobs"`
	At  time.Time `json:"at,omitzero" doc:"When the last of them ended"`
	// Tasks are the run times of each task by its name, as history.Names has it, and by the machine it ran on:
	// "V100:4", or an instance type.
	Tasks map[string]map[string]RunTimes `json:"tasks"`
}

// RunTimes are how long a task took on one kind of machine, as a lognormal distribution: times of programs are never
// below zero, and spread by factors.
type RunTimes struct {
	Runs int     `json:"runs" doc:"How many runs there were; later ones count for more"`
	Log  float64 `json:"log" doc:"Mean of the natural logarithms of their hours"`
	Var  float64 `json:"var,omitempty" doc:"Variance of the same"`
	At   int64   `json:"at" doc:"When the last one ended, seconds since 1970"`
}

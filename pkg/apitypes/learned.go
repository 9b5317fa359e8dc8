package apitypes

import "time"

// The source of the run time with which a task is planned.
const (
	FromFile    = "file"    // the job file
	FromFLOPs   = "flops"   // the job file's number of operations, by the ratings of the accelerators
	FromHistory = "history" // earlier runs of the task
	FromLike    = "like"    // earlier runs of tasks whose names differ only in numbers
	FromScaled  = "scaled"  // earlier runs on another accelerator, scaled by performance
	FromNothing = "default" // nothing is known: one hour
)

// Figure is the run time with which a task is planned on an offer, and the run times of earlier runs.
type Figure struct {
	Hours float64 `json:"hours" doc:"Assumed run time of the whole task there, hours"`
	From  string  `json:"from" enum:"file,flops,history,like,scaled,default" doc:"Source of the run time: the job file, its number of operations, earlier runs of the task, of similar tasks, on another accelerator, or nothing known"`
	// If the time was measured on another machine and scaled by speed:
	MeasuredOn    string  `json:"measuredOn,omitempty" doc:"Machine type on which the time of the job file was measured"`
	MeasuredHours float64 `json:"measuredHours,omitempty" doc:"Run time there, hours"`
	// Earlier runs, if there were any:
	Runs         int     `json:"runs,omitempty" doc:"Number of known earlier runs"`
	LearnedHours float64 `json:"learnedHours,omitempty" doc:"Run time expected from them, hours"`
	LowHours     float64 `json:"lowHours,omitempty" doc:"10th percentile, hours"`
	HighHours    float64 `json:"highHours,omitempty" doc:"90th percentile, hours"`
}

// History has the run times of tasks in earlier jobs of the same name.
type History struct {
	Job string    `json:"job" doc:"Name of the jobs"`
	At  time.Time `json:"at,omitzero" doc:"When the last of them ended"`
	// Tasks are the run times by task name (see history.Names), then by the machine it ran on: "V100:4", or an instance
	// type.
	Tasks map[string]map[string]RunTimes `json:"tasks"`
	// Boots are the boot times of bought machines, by cloud and instance type: "aws/c7i.large".
	Boots map[string]RunTimes `json:"boots,omitempty"`
}

// RunTimes is the distribution of a task's run time on one kind of machine. It is lognormal, because run times are
// positive and vary by factors.
type RunTimes struct {
	Runs int     `json:"runs" doc:"Number of runs; later ones have more weight"`
	Log  float64 `json:"log" doc:"Mean of the natural logarithms of their hours"`
	Var  float64 `json:"var,omitempty" doc:"Variance of the logarithms"`
	At   int64   `json:"at" doc:"When the last one ended, seconds since 1970"`
	// Speed is the speed of the machine's vCPUs. 0 means 1, or a machine with accelerators.
	Speed float64 `json:"speed,omitempty" doc:"Speed of the machine's vCPUs relative to m6i.xlarge; missing means 1"`
}

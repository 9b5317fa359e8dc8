package dag

// Learned is the run time of a task as measured in earlier jobs of the same name.
type Learned struct {
	// Used is set if planning uses it, because the file has no estimate.
	Used bool `json:"used,omitempty"`
	// Like is set if the time was learned from tasks whose names differ only in numbers, such as shard-4 for
	// shard-17.
	Like bool `json:"like,omitempty"`
	// On has the run times by machine, with the keys of TimeEstimate.On; "" is for every other machine.
	On map[string]Spread `json:"on"`
	// Serial is set if a plan chooses the number of machines. On then has the times on one machine. See
	// TimeEstimate.Serial.
	Serial *float64 `json:"serial,omitempty"`
}

// Spread is the expected run time of a task in hours, and the bounds that contain eight of ten runs.
type Spread struct {
	Runs  int     `json:"runs"` // the number of runs measured
	Hours float64 `json:"hours"`
	Low   float64 `json:"lowHours"`  // one in ten runs is shorter
	High  float64 `json:"highHours"` // one in ten is longer
	// Scaled is set if the task never ran on this accelerator. The time is computed from runs on another accelerator
	// and the speeds of both.
	Scaled bool `json:"scaled,omitempty"`
}

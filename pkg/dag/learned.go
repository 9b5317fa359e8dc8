package dag

// Learned is what earlier jobs of the same name have shown of how long a task runs.
type Learned struct {
	// Used says that the task is planned by it, as the file does not say how long it runs.
	Used bool `json:"used,omitempty"`
	// Like says that it is of tasks whose names differ from its own in numbers only: shard-17 of shard-4.
	Like bool `json:"like,omitempty"`
	// On are the run times by the machine, as TimeEstimate.On has them; "" is every other machine.
	On map[string]Spread `json:"on"`
}

// Spread is how long a task is expected to run, hours, and between what nine of ten runs are longer and shorter.
type Spread struct {
	Runs  int     `json:"runs"` // that it follows from
	Hours float64 `json:"hours"`
	Low   float64 `json:"lowHours"`  // one in ten runs is shorter
	High  float64 `json:"highHours"` // one in ten is longer
	// Scaled says that it never ran there: it follows from runs on another accelerator by what both can do.
	Scaled bool `json:"scaled,omitempty"`
}

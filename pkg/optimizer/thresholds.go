package optimizer

// thresholds say where one method gives way to another, and how much memory a
// method may take. Every method is exact or proves its bound wherever it is
// used, so they decide only how long an answer takes.
type thresholds struct {
	effort efforts
	// networkEntries bounds the values and messages of a cost network; beyond
	// it only the plans at hand and the sum of least costs are used.
	networkEntries int
	// windowEntries likewise bounds tasks × places of the windows.
	windowEntries int
	// tableEntries bounds the tables of a lagrangian's network; beyond it the
	// network refers to the instance's matrices.
	tableEntries int
	// labels bounds the fronts of label setting, labelWork the steps that it
	// may take before branching is tried instead.
	labels, labelWork int
	// roundAfter is the work of a bounded search that is worth doing before its
	// times are rounded: most searches are over by then.
	roundAfter int64
	// roundEntries bounds the network of a search whose times are rounded first.
	roundEntries int
	// manyTasks is the number of tasks from which on the spreader is the
	// better pricer.
	manyTasks int
}

func defaultThresholds() thresholds {
	return thresholds{
		effort:         defaultEfforts(),
		networkEntries: 40_000_000, // some hundreds of MB
		windowEntries:  20_000_000,
		tableEntries:   2_000_000,
		labels:         2_000_000,
		labelWork:      60_000_000,
		roundAfter:     20_000_000,
		roundEntries:   10_000_000,
		manyTasks:      60,
	}
}

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

// effort says how hard to work on a network before branching.
type effort struct {
	sweeps  int     // pairs of sweeps at most
	gain    float64 // stop when a pair closes less than this part of the gap
	buckets float64 // steps that bucket elimination may take
	series  int     // steps that removing one node with two pairs may take
}

// efforts are those at the root, which is worth much as all else starts from
// it, again when a better plan is known there, on a plunge and at a branch.
type efforts struct {
	root, again, plunge, branch effort
}

func defaultEfforts() efforts {
	return efforts{
		root:   effort{sweeps: 60, gain: 0.02, buckets: 100_000, series: 1 << 20},
		again:  effort{sweeps: 10, gain: 0.02, buckets: 100_000, series: 1 << 20},
		plunge: effort{sweeps: 2, gain: 0.02, buckets: 100_000, series: 1 << 20},
		branch: effort{sweeps: 4, gain: 0.1, buckets: 30_000, series: 1 << 20},
	}
}

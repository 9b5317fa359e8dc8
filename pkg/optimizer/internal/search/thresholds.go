package search

// Thresholds say where one method gives way to another, and how much memory a
// method may take. Every method is exact or proves its bound wherever it is
// used, so they decide only how long an answer takes.
type Thresholds struct {
	Effort Efforts
	// NetworkEntries bounds the values and messages of a cost network; beyond
	// it only the plans at hand and the sum of least costs are used.
	NetworkEntries int
	// WindowEntries likewise bounds tasks × places of the windows.
	WindowEntries int
	// TableEntries bounds the tables of a lagrangian's network; beyond it the
	// network refers to the instance's matrices.
	TableEntries int
	// Labels bounds the fronts of label setting, LabelWork the steps that it
	// may take before branching is tried instead.
	Labels, LabelWork int
	// RoundAfter is the work of a bounded search that is worth doing before its
	// times are rounded: most searches are over by then.
	RoundAfter int64
	// RoundEntries bounds the network of a search whose times are rounded first.
	RoundEntries int
	// ManyTasks is the number of tasks from which on the spreader is the
	// better pricer.
	ManyTasks int
}

// DefaultThresholds are those that serve best on the benchmarks.
func DefaultThresholds() Thresholds {
	return Thresholds{
		Effort:         defaultEfforts(),
		NetworkEntries: 40_000_000, // some hundreds of MB
		WindowEntries:  20_000_000,
		TableEntries:   2_000_000,
		Labels:         2_000_000,
		LabelWork:      60_000_000,
		RoundAfter:     20_000_000,
		RoundEntries:   10_000_000,
		ManyTasks:      60,
	}
}

// Effort says how hard to work on a network before branching.
type Effort struct {
	Sweeps  int     // pairs of sweeps at most
	Gain    float64 // stop when a pair closes less than this part of the gap
	Buckets float64 // steps that bucket elimination may take
	Series  int     // steps that removing one node with two pairs may take
}

// Efforts are those at the root, which is worth much as all else starts from
// it, again when a better plan is known there, on a plunge and at a branch.
type Efforts struct {
	Root, Again, Plunge, Branch Effort
}

func defaultEfforts() Efforts {
	return Efforts{
		Root:   Effort{Sweeps: 60, Gain: 0.02, Buckets: 100_000, Series: 1 << 20},
		Again:  Effort{Sweeps: 10, Gain: 0.02, Buckets: 100_000, Series: 1 << 20},
		Plunge: Effort{Sweeps: 2, Gain: 0.02, Buckets: 100_000, Series: 1 << 20},
		Branch: Effort{Sweeps: 4, Gain: 0.1, Buckets: 30_000, Series: 1 << 20},
	}
}

package search

// Thresholds control when one method replaces another and how much memory a method may use. Every method is exact or
// proves its bound, so they affect only how long an answer takes.
type Thresholds struct {
	Effort Efforts
	// NetworkEntries limits the values and messages of a cost network. Above it, only the known plans and the sum of
	// minimum costs are used.
	NetworkEntries int
	// WindowEntries limits the size of the windows, tasks × places, in the same way.
	WindowEntries int
	// TableEntries limits the tables of a lagrangian's network. Above it, the network refers to the instance's
	// matrices.
	TableEntries int
	// Labels limits the fronts of label setting. LabelWork is the maximum number of its steps before branching is
	// used instead.
	Labels, LabelWork int
	// RoundAfter is the work of a bounded search before its times are rounded. Most searches finish earlier.
	RoundAfter int64
	// RoundEntries limits the network of a search that starts with rounded times.
	RoundEntries int
	// ManyTasks is the number of tasks from which on the spreader is the better pricer.
	ManyTasks int
}

// DefaultThresholds returns the thresholds that are best on the benchmarks.
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

// Effort is the amount of work on a network before branching.
type Effort struct {
	Sweeps  int     // maximum number of pairs of sweeps
	Gain    float64 // stop if a pair closes less than this share of the gap
	Buckets float64 // maximum steps of bucket elimination
	Series  int     // maximum steps to remove one node with two pairs
}

// Efforts are the efforts at the root (high, because everything starts from it), at the root again after a better
// plan was found, in a plunge, and at a branch.
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

// Package bidding decides when spot capacity is worth its risk. It is a pure
// library: no I/O, no clock, no randomness.
//
// Quote is the expectation that planning counts with: what a run on a spot
// machine costs and takes when it may be taken away and resumes from its last
// checkpoint. Preemptions are a Poisson process, the model behind Young's and
// Daly's checkpoint intervals.
package bidding

import "math"

// Run describes one task on one offer.
type Run struct {
	// Hours is the run time without interruption.
	Hours float64
	// CheckpointHours is the interval between checkpoints, 0 when the task keeps none: an interruption then
	// loses all of the run.
	CheckpointHours float64
	// RestartHours is what each interruption costs beside lost work: finding, booting and staging another machine.
	RestartHours float64
	// PreemptionsPerHour is the rate of interruptions of one machine; Nodes machines run together, and the first that
	// is taken stops them all.
	PreemptionsPerHour float64
	Nodes              int
	// ReactHours is how often somebody looks whether to leave for the deadline's sake.
	ReactHours float64
}

// Quote is what to expect of a run on spot capacity.
type Quote struct {
	// Hours is the expected time to the end, Held the expected time for which machines are paid.
	Hours, Held float64
	// Guaranteed is the time within which the run ends if it moves on demand at its first
	// interruption, however unlucky that falls: what a deadline may count with.
	Guaranteed float64
}

// hopeless is how many times its own length a run may be expected to take; beyond that spot is no offer at all.
const hopeless = 10

// seldom is how many interruptions of a run are as good as none: with fewer the expectation, which divides by their
// rate, has no digits left.
const seldom = 1e-15

// Spot quotes a run on spot capacity. ok is false when interruptions are so frequent that it is not expected
// to end in ten times its own length.
//
// A segment of length s between checkpoints that is interrupted at rate λ and takes r to restart is done after
// (1/λ + r)(e^{λs} − 1) in the mean (Daly 2006, equation 13, without the cost of the checkpoint itself).
func Spot(run Run) (q Quote, ok bool) {
	segment := run.Hours
	if run.CheckpointHours > 0 {
		segment = math.Min(run.CheckpointHours, run.Hours)
	}
	q.Guaranteed = run.Hours + math.Max(segment, run.ReactHours) + run.RestartHours
	rate := run.PreemptionsPerHour * float64(max(run.Nodes, 1))
	if rate*run.Hours <= seldom {
		q.Hours, q.Held = run.Hours, run.Hours
		return q, true
	}
	growth := math.Expm1(rate * segment)
	segments := run.Hours / segment
	q.Hours = segments * (1/rate + run.RestartHours) * growth
	// While a new machine is being found none is paid; from boot on it is. Half of a restart is paid.
	q.Held = segments * (1/rate + run.RestartHours/2) * growth
	return q, q.Hours <= hopeless*run.Hours
}

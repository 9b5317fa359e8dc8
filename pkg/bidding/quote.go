// Package bidding decides when spot capacity is worth its risk. It is a pure library: it uses no I/O, clock or random
// source.
//
// Planning uses Quote, the expected cost and time of a run on a spot machine that may be interrupted and then resumes
// from its last checkpoint. Interruptions are a Poisson process, the model behind Young's and Daly's checkpoint
// intervals.
package bidding

import "math"

// Run describes one task on one offer.
type Run struct {
	// Hours is the run time without interruption.
	Hours float64
	// CheckpointHours is the interval between checkpoints. 0 means no checkpoints: an interruption then loses the
	// whole run.
	CheckpointHours float64
	// RestartHours is the cost of an interruption in addition to lost work: finding, booting and staging another
	// machine.
	RestartHours float64
	// PreemptionsPerHour is the rate of interruptions of one machine. Nodes machines run together; if one is
	// interrupted, all stop.
	PreemptionsPerHour float64
	Nodes              int
	// ReactHours is the interval at which the broker checks whether to move to on-demand machines to meet the
	// deadline.
	ReactHours float64
}

// Quote is the expected outcome of a run on spot capacity.
type Quote struct {
	// Hours is the expected time to the end; Held is the expected time for which machines are paid.
	Hours, Held float64
	// Guaranteed is the time in which the run ends, even in the worst case, if it moves to on-demand machines at its
	// first interruption. Deadlines are planned with it.
	Guaranteed float64
}

// maxStretch is the maximum ratio of expected to uninterrupted run time. Beyond it, spot is not offered.
const maxStretch = 10

// negligibleInterruptions is the expected number of interruptions below which a run counts as uninterrupted. The
// formula divides by their rate and would lose all precision.
const negligibleInterruptions = 1e-15

// Spot quotes a run on spot capacity. ok is false if interruptions are so frequent that the run is expected to take
// more than ten times its own length.
//
// A segment of length s between checkpoints that is interrupted at rate λ and takes r to restart takes (1/λ +
// r)(e^{λs} − 1) on average (Daly 2006, equation 13, without the cost of the checkpoint itself).
func Spot(run Run) (q Quote, ok bool) {
	segment := run.Hours
	if run.CheckpointHours > 0 {
		segment = math.Min(run.CheckpointHours, run.Hours)
	}
	q.Guaranteed = run.Hours + math.Max(segment, run.ReactHours) + run.RestartHours
	rate := run.PreemptionsPerHour * float64(max(run.Nodes, 1))
	if rate*run.Hours <= negligibleInterruptions {
		q.Hours, q.Held = run.Hours, run.Hours
		return q, true
	}
	growth := math.Expm1(rate * segment)
	segments := run.Hours / segment
	q.Hours = segments * (1/rate + run.RestartHours) * growth
	// The search for a new machine costs nothing; the machine is paid from its boot on. So half of a
	// restart is paid.
	q.Held = segments * (1/rate + run.RestartHours/2) * growth
	return q, q.Hours <= maxStretch*run.Hours
}

package parsync

import "math"

// TurnoverConflicts is how many tasks are expected to be placed in vain. The paper counts schedulers that take slots
// none twice, without seeing the others: on each of S slots N of them that take K each are expected to place N·K/S − 1
// + (1 − K/S)^N in vain (E[Yi], ATC '21, §3). This refines it for schedulers that refresh at different moments, while
// slots are taken and come free, by grades of slots, the better of which are preferred: it is the expectation over one
// gap of all schedulers together. gap and hold are in seconds, hold the mean time a task holds its slot.
//
// A scheduler that takes a slot x seconds after it saw it free does so in vain when another has taken it meanwhile and
// still holds it. Another takes it only when it is in its view, which a slot that came free after that view's refresh
// is not: of a slot that has been free for h seconds the share that knows of it is min((x + h)/gap, 1). As slots stay
// free for the time that they last on the average, S over the rate at which they are taken, h is exponential with that
// mean.
func TurnoverConflicts(schedulers int, taken, free []float64, gap, hold float64) float64 {
	sum := 0.0
	for i, s := range free {
		if s > 0 && taken[i] > 0 {
			sum += gradeTurnover(float64(schedulers), min(taken[i], s), s, gap, hold)
		}
	}
	return sum
}

const (
	turnoverSteps  = 32 // of a gap
	turnoverRounds = 8  // of the fixed point between conflicts and how long slots stay free
)

// gradeTurnover is TurnoverConflicts of one grade: n schedulers take k of s slots each.
func gradeTurnover(n, k, s, gap, hold float64) float64 {
	share := 0.0 // of the tries that are in vain
	for range turnoverRounds {
		stays := s * gap / (n * k * math.Max(1-share, 1e-3))
		next, held, step := 0.0, 0.0, gap/turnoverSteps
		for i := range turnoverSteps {
			x := (float64(i) + 0.5) * step
			held += (n - 1) * k / s / gap * knows(x, gap, stays) * step / 2
			next += -math.Expm1(-held) / turnoverSteps
			held += (n - 1) * k / s / gap * knows(x, gap, stays) * step / 2
			held *= math.Exp(-step / hold)
		}
		share = next
	}
	return n * k * share
}

// knows is the share of schedulers whose view has a slot that another saw free x seconds ago, where slots have been
// free for an exponential time of the given mean.
func knows(x, gap, mean float64) float64 {
	left := gap - x
	if left <= 0 {
		return 1
	}
	return 1 - (left+mean*math.Expm1(-left/mean))/gap
}

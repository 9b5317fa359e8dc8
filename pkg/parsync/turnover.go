package parsync

import "math"

// TurnoverConflicts returns the expected number of failed placements during one gap, over all schedulers. gap and
// hold are in seconds; hold is the mean time for which a task holds its slot.
//
// The paper assumes schedulers that take slots at the same time without seeing each other. If N of them take K of S
// slots each, the expected number of failures for each slot is N·K/S − 1 + (1 − K/S)^N (E[Yi], ATC '21, §3). This
// function refines the model: schedulers refresh at different times, slots are taken and released meanwhile, and
// better grades of slots are preferred.
//
// If a scheduler takes a slot x seconds after it saw the slot free, it fails if another scheduler has taken the slot
// meanwhile and still holds it. The other can take it only if the slot is in its view, that is, if the slot became
// free before the last refresh of that view. If a slot has been free for h seconds, the share min((x + h)/gap, 1) of
// the schedulers knows of it. h is exponentially distributed; its mean is the mean time for which slots stay free: S
// divided by the rate at which they are taken.
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
	turnoverSteps  = 32 // steps in a gap
	turnoverRounds = 8  // iterations of the fixed point between conflicts and the time slots stay free
)

// gradeTurnover is TurnoverConflicts for one grade: n schedulers take k of s slots each.
func gradeTurnover(n, k, s, gap, hold float64) float64 {
	share := 0.0 // of tries that fail
	for range turnoverRounds {
		stays := s * gap / (n * k * math.Max(1-share, 1e-3))
		next, held, step := 0.0, 0.0, gap/turnoverSteps
		for i := range turnoverSteps {
			x := (float64(i) + 0.5) * step
			held += (n - 1) * k / s / gap * shareKnowing(x, gap, stays) * step / 2
			next += -math.Expm1(-held) / turnoverSteps
			held += (n - 1) * k / s / gap * shareKnowing(x, gap, stays) * step / 2
			held *= math.Exp(-step / hold)
		}
		share = next
	}
	return n * k * share
}

// shareKnowing returns the share of schedulers whose view includes a slot that another scheduler saw free x seconds
// ago. Slots have been free for an exponential time with the given mean.
func shareKnowing(x, gap, mean float64) float64 {
	left := gap - x
	if left <= 0 {
		return 1
	}
	return 1 - (left+mean*math.Expm1(-left/mean))/gap
}

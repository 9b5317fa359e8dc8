package backtest

import "math"

// optimalAvailabilityCost returns the lowest possible cost of a run that knows in advance when machines are
// available. In every step the task works, waits, or loses time to a start; waits and starts may use at most the time
// that the deadline leaves beyond the work. So the state of the dynamic program is the step, the slack used, and the
// machine of the task: none, on-demand, or spot in a zone.
//
// Slack is counted in cells. A step is divided into a whole number of cells, chosen so that a start is close to a
// whole number of cells. Starts are rounded down, so the result is a lower bound (by less than one cell for each
// start).
func optimalAvailabilityCost(z *zones, start, length int, o AvailabilityOptions) float64 {
	gap := z.gap.Hours()
	parts := divide(o.Changeover / gap)
	begin := int(o.Changeover/gap*float64(parts) + 1e-6)
	total := int(math.Floor((o.Deadline-o.Work)/gap*float64(parts) + 1e-6))
	kinds := 2 + len(z.up)
	const idle, onDemand = 0, 1
	cost, next := infinite((total+1)*kinds), infinite((total+1)*kinds)
	cost[idle] = 0
	cell := gap / float64(parts)
	best := math.Inf(1)
	for i := range length {
		fill(next, math.Inf(1))
		passed := float64(i) * gap
		for used := 0; used <= min(total, i*parts+begin); used++ {
			row := cost[used*kinds : (used+1)*kinds]
			left := o.Work - (passed - float64(used)*cell) // work left, and the rest of a start
			share := min(1, left/gap)
			least := math.Inf(1)
			for _, x := range row {
				least = min(least, x)
			}
			if math.IsInf(least, 1) {
				continue
			}
			if left <= 1e-9 {
				best = min(best, least)
				continue
			}
			if used+parts <= total {
				to := (used+parts)*kinds + idle
				next[to] = min(next[to], least)
			}
			for k := onDemand; k < kinds; k++ {
				rate := 1.0
				if k > onDemand {
					if !z.up[k-2][start+i] {
						continue
					}
					rate = o.SpotRatio
				}
				relax(next, used*kinds+k, row[k]+rate*gap*share)
				if used+begin <= total {
					// The start is paid: its slack is used now, and its time passes as if it were work.
					first := min(1, (left+float64(begin)*cell)/gap)
					relax(next, (used+begin)*kinds+k, least+rate*gap*first)
				}
			}
		}
		cost, next = next, cost
	}
	for used := 0; used <= total; used++ {
		if o.Work-(float64(length)*gap-float64(used)*cell) <= 1e-6+gap*float64(o.Deadline/gap-float64(length)) {
			for _, x := range cost[used*kinds : (used+1)*kinds] {
				best = min(best, x)
			}
		}
	}
	return best
}

func relax(to []float64, i int, x float64) {
	if x < to[i] {
		to[i] = x
	}
}

func infinite(n int) []float64 {
	out := make([]float64, n)
	fill(out, math.Inf(1))
	return out
}

func fill(s []float64, x float64) {
	for i := range s {
		s[i] = x
	}
}

// divide returns the number of cells in a step with which rounding down a start loses least. steps is the length of a
// start in steps.
func divide(steps float64) int {
	best, loss := 1, math.Inf(1)
	for parts := 1; parts <= 4; parts++ {
		cells := steps*float64(parts) + 1e-6
		if l := (cells - math.Floor(cells)) / float64(parts); l < loss-1e-9 {
			best, loss = parts, l
		}
	}
	return best
}

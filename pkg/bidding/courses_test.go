package bidding_test

import (
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// courses computes the expected cost by definition. A start takes one step and does no work.
type courses struct {
	chain *market.Chain
	od    float64
	step  float64
	idle  float64 // cost of a step of waiting
	known map[[4]int]float64
}

// choices returns the lowest expected costs of beginning now, at a level, on the better kind of machine, and of
// waiting.
func (w *courses) choices(work, time, q int) (start, wait float64) {
	start, wait = w.od+w.next(work, time-1, q, 2), math.Inf(1)
	if work+1 <= time-1 { // after a lost step there is still time for on-demand
		wait = w.idle + w.next(work, time-1, q, 0)
		start = min(start, w.chain.USD[q]*w.step+w.next(work, time-1, q, 1))
	}
	return start, wait
}

// best returns the lowest expected cost from a level, holding nothing (0), spot (1) or on-demand (2).
func (w *courses) best(work, time, q, on int) float64 {
	if work == 0 {
		return 0
	}
	need := work + 1
	if on == 2 {
		need = work
	}
	if time < need {
		return 1e30
	}
	start, wait := w.choices(work, time, q)
	best := min(start, wait)
	switch {
	case on == 2:
		best = min(best, w.od+w.next(work-1, time-1, q, 2))
	case on == 1 && work+1 <= time-1:
		best = min(best, w.chain.USD[q]*w.step+w.next(work-1, time-1, q, 1))
	}
	return best
}

// next returns the expectation over the next level.
func (w *courses) next(work, time, q, on int) float64 {
	if work == 0 {
		return 0
	}
	key := [4]int{work, time, q, on}
	if v, ok := w.known[key]; ok {
		return v
	}
	sum, n := 0.0, len(w.chain.USD)
	for to := range n {
		if p := float64(w.chain.P[q*n+to]); p > 0 {
			sum += p * w.best(work, time, to, on)
		}
	}
	w.known[key] = sum
	return sum
}

// prices checks the two limits between which the task with the most slack waits: interpolated between the levels
// around them, waiting saves nothing there.
func (w *courses) prices(t *testing.T, b *bidding.Begin, work int) {
	t.Helper()
	gain := make([]float64, len(w.chain.USD))
	for q := range gain {
		start, wait := w.choices(work, work+b.Slack, q)
		gain[q] = start*(1-bidding.BeginGain) - wait
	}
	want := [2]float64{}
	for q := 1; q < len(gain); q++ {
		low, high := w.chain.USD[q-1], w.chain.USD[q]
		meets := low + (high-low)*gain[q-1]/(gain[q-1]-gain[q])
		switch {
		case want[0] == 0 && gain[q-1] <= 0 && gain[q] > 0:
			want[0] = meets
		case want[0] > 0 && want[1] == 0 && gain[q-1] > 0 && gain[q] <= 0:
			want[1] = meets
		}
	}
	at := b.Slack*(b.Work+1) + work
	for i, got := range []float32{b.Above[at], b.Below[at]} {
		if math.Abs(float64(got)-want[i]) > 1e-3 {
			t.Errorf("with %d steps of work the limits are %v and %v, by the levels %v", work, b.Above[at], b.Below[at], want)
		}
	}
}

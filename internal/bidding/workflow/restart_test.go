package workflow

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Prices are constant. Each task must start one machine, and pay for the start and for its work.
func TestEachTaskPaysForItsStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		restart := rapid.SampledFrom([]float64{0.05, 0.3, 1}).Draw(t, "restart")
		w, stretch := drawn(t, restart)
		deadline := stretch*w.Hours() + w.reserve()
		fixed, want := w.newBFRC(deadline), map[string]float64{}
		fixed.hour = math.MaxInt
		kinds := fixed.kind
		for i, work := range w.work {
			hours := restart + work/w.speed[kinds[i]]
			want[bfrc] += hours * w.types[kinds[i]].USD[0]
			want[spot] += (restart + work) * w.types[w.fastest].USD[0]
			want[onDemand] += (restart + work) * w.unitUSD
		}
		for name, usd := range want {
			got, err := w.Run(t.Context(), name, 150, deadline)
			if name == bfrc {
				got, err = w.replay(t.Context(), fixed, 150, deadline)
			}
			if err != nil || math.Abs(got.USD-usd) > 1e-6*usd || got.Missed || got.Interruptions != 0 {
				t.Fatalf("%s: %+v %v, want %v USD", name, got, err, usd)
			}
		}
	})
}

// One hour is too expensive, so the work in it runs on demand. This needs two more starts of 6 minutes.
func TestInterruptionCostsStarts(t *testing.T) {
	prices := slices.Repeat([]float64{0.2}, 300)
	prices[202] = 5
	w, err := New(t.Context(), jobOf(nil, 60), []Type{{OnDemandUSD: 1, USD: prices}}, 5, 0.1, 100)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Run(t.Context(), spot, 200, 12)
	if want := 1 + 4.3*0.2; err != nil || math.Abs(got.USD-want) > 1e-9 || got.Interruptions != 1 {
		t.Errorf("%+v %v, want %v USD and one interruption", got, err, want)
	}
}

// Prices are 1 or 3 with equal probability, independent of the price before, and 4 on demand. For 4 hours of work in
// 6 hours, the bid must be the one with the lowest cost by equation 7.
func TestBidFollowsEquation7(t *testing.T) {
	var prices []float64
	for range 100 {
		prices = append(prices, 1, 1, 3, 3) // each follows each as often
	}
	var r float64
	var bids func(c, t int) (low, high float64) // the costs with a bid of 1 and of 3
	least := func(c, t int) float64 {
		switch c {
		case 0:
			return 0
		case t:
			return 4 * float64(c)
		}
		low, high := bids(c, t)
		return min(low, high)
	}
	bids = func(c, t int) (low, high float64) {
		return (1+least(c-1, t-1))/2 + (r+least(c, t-1))/2, 2 + least(c-1, t-1)
	}
	seen := map[bool]int{}
	for restart := 0.05; restart < 1; restart += 0.1 {
		r = 2 * restart // at the mean price
		w, err := New(t.Context(), jobOf(nil, 60), []Type{{OnDemandUSD: 4, USD: prices}}, 4, restart, 400)
		if err != nil {
			t.Fatal(err)
		}
		p := w.newBFRC(20)
		p.until[0] = 6
		low, high := bids(4, 6)
		got, err := p.order(t.Context(), moment{run: w.progress(), work: 4, hour: 400, finish: 20, spare: 1, held: 0, restart: restart})
		if err != nil || got.maxUSD < 1 || (got.maxUSD < 3) != (low < high) {
			t.Errorf("with r = %v: bid %v (%v); a bid of 1 costs %v, of 3 %v", r, got.maxUSD, err, low, high)
		}
		seen[low < high]++
	}
	if len(seen) != 2 {
		t.Errorf("the test compares only one kind of bid: %v", seen)
	}
}

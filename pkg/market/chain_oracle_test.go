package market_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestLearnMatchesDefinition compares the levels, prices and transitions that Learn returns with plain sums over all
// hours.
func TestLearnMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hours := rapid.SampledFrom([]int{1, 3, 20, 90}).Draw(t, "hours")
		price := rapid.SampledFrom([]float64{0.1, 0.11, 0.2, 0.5, 0.9, 4})
		hourly := rapid.SliceOfN(price, hours, hours).Draw(t, "hourly")
		o := market.ChainOptions{
			Levels:    rapid.SampledFrom([]int{-1, 0, 1, 2, 3, 7}).Draw(t, "levels"),
			HalfLife:  rapid.SampledFrom([]float64{0, 0.5, 9, 200}).Draw(t, "half-life"),
			Smoothing: rapid.SampledFrom([]float64{0.5, 3}).Draw(t, "smoothing"),
			Daily:     rapid.Bool().Draw(t, "daily"),
		}
		if o.Daily {
			for i := range hourly {
				hourly[i] *= 1 + 1e-4*float64(i) // otherwise rounding would decide which of two equal prices is higher
			}
		}
		p := &plain{pasts: []market.Past{{USD: hourly}}, o: o}
		prices := make([]float64, len(hourly))
		for i := range hourly {
			prices[i] = hourly[i] / p.factor(i)
		}
		c := market.Learn(hourly, o)
		tops := cuts(prices, o.Levels)
		if len(c.Top) != len(tops) || len(c.USD) != len(tops) {
			t.Fatalf("levels end at %v, not %v", c.Top, tops)
		}
		n := len(tops)
		at := func(usd float64) int {
			return slices.IndexFunc(tops, func(top float64) bool { return usd <= top })
		}
		mass, cost := make([]float64, n), make([]float64, n)
		counts := make([]float64, n*n)
		for i, usd := range prices {
			w := 1.0
			if o.HalfLife > 0 {
				w = max(math.Pow(0.5, float64(len(prices)-1-i)/o.HalfLife), 1e-12)
			}
			q := at(usd)
			// The price is slightly reduced, because rounding may put the highest price of a level above the level's
			// end.
			if got := c.Level(hourly[i]*(1-1e-12), i); got != q {
				t.Fatalf("%v in hour %d is of level %d, not %d", hourly[i], i, got, q)
			}
			mass[q], cost[q] = mass[q]+w, cost[q]+w*usd
			if i > 0 {
				counts[at(prices[i-1])*n+q] += w
			}
		}
		for q := range n {
			if want := cost[q] / mass[q]; math.Abs(c.Top[q]/tops[q]-1) > 1e-9 || math.Abs(c.USD[q]/want-1) > 1e-9 {
				t.Fatalf("level %d ends at %v and costs %v, not %v and %v", q, c.Top[q], c.USD[q], tops[q], want)
			}
		}
		transitions(t, c, counts, mass, o.Smoothing)
	})
}

// cuts returns the highest price of each level. Levels have about the same number of hours, and equal prices are in
// the same level.
func cuts(prices []float64, levels int) (tops []float64) {
	if levels <= 0 {
		levels = 24
	}
	sorted := slices.Sorted(slices.Values(prices))
	for l := 1; l <= levels; l++ {
		if last := l * len(sorted) / levels; last > 0 {
			tops = append(tops, sorted[last-1])
		}
	}
	return slices.Compact(tops)
}

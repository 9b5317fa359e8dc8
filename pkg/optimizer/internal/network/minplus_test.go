package network_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Push must give the result of brute force by rows, by columns (without a row table), and with two matrices. Costs
// are small, so that few values matter, or large, so that all do.
func TestPushMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 20).Draw(t, "values"), rapid.IntRange(1, 6).Draw(t, "values of the peer")
		spread := rapid.SampledFrom([]float64{0.5, 3, 50}).Draw(t, "costs up to")
		entry := rapid.Float64Range(0, spread)
		table, second, turned := make([]float64, n*m), make([]float64, n*m), make([]float64, n*m)
		h := make([]float64, n)
		for a := range n {
			h[a] = float64(rapid.IntRange(0, 9).Draw(t, "cost"))
			if a > 0 && rapid.IntRange(0, 9).Draw(t, "ruled out") == 0 {
				h[a] = search.Inf
			}
			for b := range m {
				table[a*m+b], second[a*m+b] = entry.Draw(t, "table"), entry.Draw(t, "second")
				turned[b*n+a] = table[a*m+b]
			}
		}
		const scale, more = 2.0, 3.0
		for name, side := range map[string]network.Side{
			"rows":    {Matrices: network.Matrices{Table: table, Scale: scale}},
			"columns": {Matrices: network.Matrices{Transposed: turned, Scale: scale}},
			"both":    {Matrices: network.Matrices{Table: table, Scale: scale, Second: second, More: more}},
		} {
			got := make([]float64, m)
			work := side.Push(got, h)
			for b := range m {
				want := search.Inf
				for a := range n {
					cost := h[a] + scale*table[a*m+b]
					if name == "both" {
						cost += more * second[a*m+b]
					}
					want = min(want, cost)
				}
				if math.Abs(got[b]-want) > 1e-12*want {
					t.Fatalf("by %s: %v for value %d, not %v", name, got[b], b, want)
				}
			}
			if work < n || work > n*m+n+m {
				t.Fatalf("by %s: %d entries touched of %d", name, work, n*m)
			}
		}
	})
}

// Push must skip a value whose own cost exceeds all that the cheapest value offers.
func TestPushSkipsExpensiveValues(t *testing.T) {
	const n, m = 10, 4
	h, entries := make([]float64, n), make([]float64, n*m)
	for a := range h {
		h[a] = float64(100 * (n - a))
	}
	for name, side := range map[string]network.Side{
		"rows":    {Matrices: network.Matrices{Table: entries, Scale: 1}},
		"columns": {Matrices: network.Matrices{Transposed: entries, Scale: 1}},
		"both":    {Matrices: network.Matrices{Table: entries, Scale: 1, Second: entries, More: 1}},
	} {
		if work := side.Push(make([]float64, m), h); work > n+m {
			t.Errorf("by %s: %d entries touched", name, work)
		}
	}
}

// Each value is the best partner of one value of the peer: the cost of that pair is zero, and of all others high.
// Push must offer each.
func TestPushOffersEveryBestValue(t *testing.T) {
	for n := 1; n <= 13; n++ {
		h, entries := make([]float64, n), make([]float64, n*n)
		for a := range n {
			h[a] = 1 + float64((a+n/2)%n)/100 // the cheapest is in the middle
			for b := range n {
				if a != b {
					entries[a*n+b] = 50
				}
			}
		}
		for name, side := range map[string]network.Side{
			"rows":    {Matrices: network.Matrices{Table: entries, Scale: 1}},
			"columns": {Matrices: network.Matrices{Transposed: entries, Scale: 1}},
			"both":    {Matrices: network.Matrices{Table: entries, Scale: 1, Second: entries, More: 1}},
		} {
			got := make([]float64, n)
			if work := side.Push(got, h); n > 1 && (work < n*n || work > n*n+n) {
				t.Errorf("by %s: %d entries touched of %d", name, work, n*n)
			}
			if !slices.Equal(got, h) {
				t.Errorf("by %s: %v is offered of %v", name, got, h)
			}
		}
	}
}

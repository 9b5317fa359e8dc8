package pricing_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/pricing"
)

// The weights must satisfy the rows and have the returned cost. The prices must prove that this cost is minimal:
// after paying them, no column costs less than zero.
func TestSolveIsOptimal(t *testing.T) {
	var s pricing.Program // one program for all cases, because its buffers are reused
	rapid.Check(t, func(t *rapid.T) {
		m, n := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(1, 8).Draw(t, "columns")
		const dummy = 100.0
		cost, rows := make([]float64, n), make([][]float64, m)
		for j := range cost {
			cost[j] = float64(rapid.IntRange(0, 20).Draw(t, "cost"))
		}
		for i := range rows {
			rows[i] = make([]float64, n)
			for j := range rows[i] {
				rows[i][j] = float64(rapid.IntRange(0, 12).Draw(t, "use")) / 4
			}
		}
		s.Solve(cost, rows, dummy)
		w := make([]float64, n)
		for j := range w {
			w[j] = math.NaN() // values that an earlier call left
		}
		s.Weights(w)
		sum, usd := 0.0, 0.0
		for j, x := range w {
			if !(x >= 0) {
				t.Fatalf("weights %v", w)
			}
			sum, usd = sum+x, usd+x*cost[j]
		}
		if usd += (1 - sum) * dummy; sum > 1+1e-9 || math.Abs(usd-s.Value()) > 1e-7 {
			t.Fatalf("weights %v, sum %v, cost %v, but Value returns %v", w, sum, usd, s.Value())
		}
		prices := 0.0
		for i, row := range rows {
			use := 0.0
			for j, x := range w {
				use += x * row[j]
			}
			if use > 1+1e-9 || s.Price(i) < 0 {
				t.Fatalf("row %d is used %v times, at a price of %v", i, use, s.Price(i))
			}
			prices += s.Price(i)
		}
		least := dummy
		for j, c := range cost {
			for i, row := range rows {
				c += s.Price(i) * row[j]
			}
			least = min(least, c)
		}
		if math.Abs(least-prices-s.Value()) > 1e-7 {
			t.Fatalf("Value is %v, but the prices prove only %v", s.Value(), least-prices)
		}
	})
}

// With equal rows and columns, pivots could cycle. Solve must end.
func TestSolveDoesNotCycle(t *testing.T) {
	for _, n := range []int{1, 4, 12} {
		cost, rows := make([]float64, n), make([][]float64, n)
		for i := range rows {
			cost[i] = 1
			rows[i] = make([]float64, n)
			for j := range rows[i] {
				rows[i][j] = 1
			}
		}
		var s pricing.Program
		if s.Solve(cost, rows, 10); math.Abs(s.Value()-1) > 1e-9 {
			t.Errorf("%d columns that are alike cost %v", n, s.Value())
		}
	}
	// This is Beale's example, in which plain pivots cycle.
	var s pricing.Program
	s.Solve([]float64{-0.75, 150, -0.02, 6}, [][]float64{{0.25, -60, -0.04, 9}, {0.5, -90, -0.02, 3}, {0, 0, 1, 0}}, 0)
	w := make([]float64, 4)
	s.Weights(w)
	if usd := -0.75*w[0] + 150*w[1] - 0.02*w[2] + 6*w[3]; math.Abs(usd-s.Value()) > 1e-9 || s.Value() > -0.74 {
		t.Errorf("weights %v cost %v, but Value returns %v", w, usd, s.Value())
	}
}

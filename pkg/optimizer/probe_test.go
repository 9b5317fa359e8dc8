package optimizer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// hurried draws a small model with a makespan objective and a budget. Probes are used for such models.
func hurried(t *rapid.T) *optimizer.Model {
	m := spotModel(t)
	m.Objective, m.DeadlineHours = optimizer.Makespan, nil
	usd := 0.0
	for i := range m.Tasks {
		usd += m.Tasks[i].Candidates[0].USD
	}
	usd *= rapid.Float64Range(0.2, 1.5).Draw(t, "budget")
	m.BudgetUSD = &usd
	return m
}

// solveFunc is the type of optimizer.Solve and its variants.
type solveFunc = func(context.Context, *optimizer.Model, optimizer.Options) (*optimizer.Solution, error)

func eachProber(t *testing.T, check func(*rapid.T, solveFunc)) {
	t.Run("default", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { check(t, optimizer.Solve) })
	})
	for name, solve := range optimizer.Variants() {
		if strings.HasPrefix(name, "rounded") {
			t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { check(t, solve) }) })
		}
	}
}

func TestProbesFindOptimum(t *testing.T) {
	eachProber(t, func(t *rapid.T, solve solveFunc) {
		m := hurried(t)
		s, err := solve(t.Context(), m, optimizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkOptimal(t, m, s)
	})
}

// The search is stopped at every stage. The bounds that probes have proven must be valid.
func TestProbesBoundStoppedSearch(t *testing.T) {
	eachProber(t, func(t *rapid.T, solve solveFunc) {
		m := hurried(t)
		want, ok := bruteForce(m)
		s, err := solve(t.Context(), m, optimizer.Options{WorkLimit: int64(rapid.IntRange(1, 40_000).Draw(t, "work"))})
		if err != nil || s.Status == optimizer.Infeasible {
			return
		}
		if !ok || s.Bound > want*(1+1e-9) || s.Objective < want*(1-1e-9) {
			t.Fatalf("%s: bound %v and objective %v, optimum %v", s.Status, s.Bound, s.Objective, want)
		}
	})
}

// A probe for any cut is stopped anywhere. Its results must be correct.
func TestProbeIsCorrect(t *testing.T) {
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		m := hurried(t)
		want, ok := bruteForce(m)
		cut := rapid.Float64Range(0.01, 8).Draw(t, "cut")
		lower, hours, err := optimizer.Probe(t.Context(), m, cut, int64(rapid.SampledFrom([]int{1, 100, 1000, 10_000, 1_000_000}).Draw(t, "work")))
		switch {
		case err != nil:
			t.Fatal(err)
		case ok && (want < lower*(1-1e-9) || want > hours*(1+1e-9)):
			t.Fatalf("between %v and %v hours, but the best plan takes %v", lower, hours, want)
		case lower > 0 || hours < cut:
			decided++
		}
	})
	if decided < 50 && !testing.Short() { // short test runs draw fewer models
		t.Errorf("%d decided", decided)
	}
}

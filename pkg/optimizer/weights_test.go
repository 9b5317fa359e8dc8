package optimizer_test

import (
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// A plan must have the minimum weighted sum of cost and hours. Some point of the Pareto front has that minimum.
func TestWeightedPlansMatchBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0, 1:
			m = boundedModel(t)
		case 2:
			m = carbonModel(t)
		}
		weight := rapid.SampledFrom([]float64{0, 1e-3, 0.1, 0.5, 1, 3, 100})
		w := optimizer.Weights{USD: weight.Draw(t, "usd"), Hours: weight.Draw(t, "hours")}
		if w.USD == 0 && w.Hours == 0 {
			w.USD = 1
		}
		m.Objective, m.Weights = optimizer.Weighted, &w
		best := math.Inf(1)
		for _, p := range bruteFront(m) {
			best = min(best, w.USD*p[0]+w.Hours*p[1])
		}
		got, err := optimizer.Solve(t.Context(), m, optimizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == optimizer.Infeasible {
			if !math.IsInf(best, 1) {
				t.Fatalf("infeasible, but there is a plan with %v", best)
			}
			return
		}
		usd, hours := evaluate(m, got.Picks)
		if got.Status != optimizer.Optimal || math.Abs(got.Objective-best) > 1e-6*max(1, best) ||
			!same(got.Objective, w.USD*usd+w.Hours*hours) {
			t.Fatalf("%s %v (bound %v), want %v", got.Status, got.Objective, got.Bound, best)
		}
	})
}

// A weighted search is stopped early. No plan may be below its bound.
func TestWeightedBoundHoldsWhenStopped(t *testing.T) {
	m := generate(3, randomDAG, 8, 12, 4)
	m.Objective, m.Weights = optimizer.Weighted, &optimizer.Weights{USD: 1, Hours: 2}
	whole, err := optimizer.Solve(t.Context(), m, optimizer.Options{})
	if err != nil || whole.Status != optimizer.Optimal {
		t.Fatalf("%+v, %v", whole, err)
	}
	for work := int64(1000); work < 1e7; work *= 4 {
		part, err := optimizer.Solve(t.Context(), m, optimizer.Options{WorkLimit: work})
		if err == nil && (part.Bound > whole.Objective*(1+1e-9) || part.Objective < whole.Objective*(1-1e-7)) {
			t.Errorf("%d steps: %v, bound %v; the optimum is %v", work, part.Objective, part.Bound, whole.Objective)
		}
	}
}

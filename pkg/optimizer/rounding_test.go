package optimizer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// spotModel draws a small model in which options are either fast and expensive or slow and cheap. The slow ones are
// all slower by about the same factor, like spot runs with one interruption. Rounded times are meant for such models.
func spotModel(t *rapid.T) *optimizer.Model {
	m := &optimizer.Model{
		Objective: optimizer.Cost, Places: []string{"p", "q"},
		USDPerGiB: [][]float64{{0, 0.125}, {0.25, 0}}, HoursPerGiB: [][]float64{{0, 0.001}, {0.002, 0}},
	}
	hours := rapid.SampledFrom([]float64{0.01, 0.1, 0.2})
	usd := rapid.SampledFrom([]float64{0.5, 0.75, 1, 1.5, 2})
	for i := range rapid.IntRange(2, 6).Draw(t, "tasks") {
		task := optimizer.Task{ID: fmt.Sprint(i)}
		h := hours.Draw(t, "hours")
		for p := range m.Places {
			dear := usd.Draw(t, "usd")
			task.Candidates = append(task.Candidates,
				optimizer.Candidate{ID: fmt.Sprint("fast", p), Place: p, USD: dear, Hours: h},
				optimizer.Candidate{ID: fmt.Sprint("slow", p), Place: p, USD: dear / 4, Hours: 1 + 2*h})
		}
		m.Tasks = append(m.Tasks, task)
		for j := range i {
			if rapid.Bool().Draw(t, "edge") {
				m.Edges = append(m.Edges, optimizer.Edge{From: fmt.Sprint(j), To: task.ID, GiB: float64(rapid.IntRange(0, 4).Draw(t, "gib"))})
			}
		}
	}
	deadline := rapid.Float64Range(0.8, 4.5).Draw(t, "deadline")
	m.DeadlineHours = &deadline
	return m
}

func TestRoundedTimesFindOptimum(t *testing.T) {
	for name, solve := range optimizer.Variants() {
		if !strings.HasPrefix(name, "rounded") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := spotModel(t)
				s, err := solve(t.Context(), m, optimizer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				checkOptimal(t, m, s)
			})
		})
	}
}

// The search is stopped at every stage. The bounds from rounded times must be valid.
func TestRoundedTimesBoundStoppedSearch(t *testing.T) {
	for name, solve := range optimizer.Variants() {
		if !strings.HasPrefix(name, "rounded") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := spotModel(t)
				want, ok := bruteForce(m)
				s, err := solve(t.Context(), m, optimizer.Options{WorkLimit: int64(rapid.IntRange(1, 20_000).Draw(t, "work"))})
				if err != nil || s.Status == optimizer.Infeasible {
					return
				}
				if !ok || s.Bound > want*(1+1e-9) || s.Objective < want*(1-1e-9) {
					t.Fatalf("%s: bound %v and objective %v, optimum %v", s.Status, s.Bound, s.Objective, want)
				}
			})
		})
	}
}

// A bound must be at most the optimum with rounded times, which must be at most the optimum.
func TestRoundedBoundNeverExceedsOptimum(t *testing.T) {
	barred := 0
	rapid.Check(t, func(t *rapid.T) {
		m := spotModel(t)
		want, ok := bruteForce(m)
		bounds, costs, err := optimizer.RoundedBounds(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for i := range bounds {
			barred++
			if !ok || bounds[i] > costs[i]*(1+1e-9) || costs[i] > want*(1+1e-9) {
				t.Fatalf("bound %v and cost %v under rounded times, the optimum is %v", bounds[i], costs[i], want)
			}
		}
	})
	if barred == 0 && !testing.Short() {
		t.Error("rounding never excluded anything")
	}
}

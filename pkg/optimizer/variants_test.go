package optimizer_test

import (
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// Every method must find the optimum of the same small models.
func TestEveryMethodFindsOptimum(t *testing.T) {
	for name, solve := range optimizer.Variants() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := smallModel(t)
				switch rapid.IntRange(0, 3).Draw(t, "problem") {
				case 1:
					m.Objective = optimizer.Makespan
				case 2, 3:
					m = boundedModel(t)
				}
				s, err := solve(t.Context(), m, optimizer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				checkOptimal(t, m, s)
			})
		})
	}
}

// On models that are too large for brute force, all methods must find plans of equal value.
func TestMethodsAgreeOnLargerModels(t *testing.T) {
	for _, s := range []shape{chain, forkJoin, randomDAG, layered} {
		for seed := range uint64(3) {
			m := generate(seed, s, 9, 16, 6)
			cheap, fast := ends(t, m)
			deadline, budget := 0.7*fast.Hours+0.3*cheap.Hours, 0.7*cheap.USD+0.3*fast.USD
			for _, q := range []struct {
				objective        optimizer.Objective
				deadline, budget *float64
			}{
				{optimizer.Cost, nil, nil},
				{optimizer.Makespan, nil, nil},
				{optimizer.Cost, &deadline, nil},
				{optimizer.Makespan, nil, &budget},
			} {
				m.Objective, m.DeadlineHours, m.BudgetUSD = q.objective, q.deadline, q.budget
				want := solve(t, m, optimizer.Options{})
				if want.Status != optimizer.Optimal {
					t.Fatalf("%s: %s", q.objective, want.Status)
				}
				for name, solve := range optimizer.Variants() {
					got, err := solve(t.Context(), m, optimizer.Options{})
					if err != nil {
						t.Fatal(err)
					}
					if got.Status != optimizer.Optimal || !same(got.Objective, want.Objective) {
						t.Errorf("shape %d seed %d %s: %s finds %s %v, not %v", s, seed, q.objective, name, got.Status, got.Objective, want.Objective)
					}
				}
			}
		}
	}
}

// Without the methods that need much memory, Solve must still find valid plans and bounds.
func TestSolveWithLittleMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		if rapid.Bool().Draw(t, "bounded") {
			m = boundedModel(t)
		} else if rapid.Bool().Draw(t, "byTime") {
			m.Objective = optimizer.Makespan
		}
		want, ok := bruteForce(m)
		s, err := optimizer.SolveCramped(t.Context(), m, optimizer.Options{})
		switch {
		case errors.Is(err, optimizer.ErrUndecided):
		case err != nil:
			t.Fatal(err)
		case s.Status == optimizer.Infeasible:
			if ok {
				t.Fatalf("infeasible, but %v is possible", want)
			}
		default:
			if !ok || s.Bound > want*(1+1e-9) || s.Objective < want*(1-1e-9) {
				t.Fatalf("bound %v and objective %v, optimum %v (%v)", s.Bound, s.Objective, want, ok)
			}
			checkPlan(t, m, s)
		}
	})
}

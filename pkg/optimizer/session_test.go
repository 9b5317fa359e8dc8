package optimizer_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// TestASessionFindsWhatAFreshSolveFinds changes a model at random and compares
// each answer of the session with one that knows nothing of the past.
func TestASessionFindsWhatAFreshSolveFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := sessionModel(t)
		s, err := optimizer.NewSession(m)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			change(t, m, s)
			got, err := s.Solve(t.Context(), optimizer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			now := s.Model()
			want := solve(t, now, optimizer.Options{})
			if got.Status != want.Status || !same(got.Objective, want.Objective) {
				t.Fatalf("session: %s %v, fresh: %s %v", got.Status, got.Objective, want.Status, want.Objective)
			}
			if got.Status == optimizer.Infeasible {
				continue
			}
			usd, hours := evaluate(now, picksOf(t, now, got))
			if !same(usd, got.USD) || !same(hours, got.Hours) || !keepsBounds(now, usd, hours) || !keepsCap(now, emitted(now, picksOf(t, now, got))) {
				t.Fatalf("says %v USD %v h, is %v USD %v h", got.USD, got.Hours, usd, hours)
			}
		}
	})
}

// sessionModel is a small model of any form, with emissions or without, or a larger one of cost alone.
func sessionModel(t *rapid.T) *optimizer.Model {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return boundedModel(t)
	case 1:
		m := smallModel(t)
		m.Objective = optimizer.Makespan
		return m
	case 2:
		return smallModel(t)
	case 3:
		return carbonModel(t)
	}
	s := rapid.SampledFrom([]shape{chain, forkJoin, randomDAG, layered}).Draw(t, "shape")
	return generate(rapid.Uint64Max(1<<20).Draw(t, "seed"), s, rapid.IntRange(2, 14).Draw(t, "tasks"), 12, 6)
}

// change does one thing to the session.
func change(t *rapid.T, m *optimizer.Model, s *optimizer.Session) {
	place := rapid.IntRange(0, len(m.Places)-1).Draw(t, "place")
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0:
		s.Block(func(_ string, c *optimizer.Candidate) bool { return c.Place == place })
	case 1:
		s.Unblock(func(_ string, c *optimizer.Candidate) bool { return c.Place == place })
	case 2:
		factor := rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "factor")
		err := s.Reprice(func(_ string, c *optimizer.Candidate) (float64, float64) {
			if c.Place == place {
				return c.USD * factor, c.Hours
			}
			return c.USD, c.Hours
		})
		if err != nil {
			t.Fatal(err)
		}
	case 3:
		task := m.Tasks[rapid.IntRange(0, len(m.Tasks)-1).Draw(t, "task")]
		left := rapid.SampledFrom([]float64{0, 1.5}).Draw(t, "hours left")
		k := rapid.IntRange(0, len(task.Candidates)-1).Draw(t, "candidate")
		if err := s.Fix(task.ID, k, 0, left); err != nil {
			t.Fatal(err)
		}
	}
}

// picksOf finds the choices of a solution in a model by their ids.
func picksOf(t *rapid.T, m *optimizer.Model, s *optimizer.Solution) []int {
	picks := make([]int, len(m.Tasks))
	for i, task := range m.Tasks {
		picks[i] = -1
		for k, c := range task.Candidates {
			if c.ID == s.Choice[task.ID] {
				picks[i] = k
			}
		}
		if picks[i] < 0 {
			t.Fatalf("%s runs on %q, which is blocked", task.ID, s.Choice[task.ID])
		}
	}
	return picks
}

func TestASessionRefusesWhatAModelMayNotHold(t *testing.T) {
	s, err := optimizer.NewSession(generate(1, chain, 3, 4, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reprice(func(string, *optimizer.Candidate) (float64, float64) { return math.NaN(), 1 }); err == nil {
		t.Error("takes NaN for a price")
	}
	if err := s.Fix("t00000", 9, 0, 0); err == nil {
		t.Error("fixes a task to a candidate that there is not")
	}
	if err := s.Fix("nobody", 0, 0, 0); err == nil {
		t.Error("fixes a task that there is not")
	}
	minus := -1.0
	if err := s.SetBounds(&minus, nil); err == nil {
		t.Error("takes a deadline below zero")
	}
}

// BenchmarkSession blocks the place of one task of the plan in force and solves
// again, then frees it.
func BenchmarkSession(b *testing.B) {
	var sessions []*optimizer.Session
	var models []*optimizer.Model
	var picks [][]int
	for seed := range uint64(8) {
		m := generate(seed, randomDAG, 30, 100, 30)
		s, err := optimizer.NewSession(m)
		if err != nil {
			b.Fatal(err)
		}
		sol, err := s.Solve(b.Context(), optimizer.Options{})
		if err != nil {
			b.Fatal(err)
		}
		sessions, models, picks = append(sessions, s), append(models, m), append(picks, sol.Picks)
	}
	n := 0
	for b.Loop() {
		k := n % len(sessions)
		s, blocked := sessions[k], place(models[k], picks[k], n%30)
		at := func(_ string, c *optimizer.Candidate) bool { return c.Place == blocked }
		s.Block(at)
		if _, err := s.Solve(b.Context(), optimizer.Options{Hint: picks[k]}); err != nil {
			b.Fatal(err)
		}
		s.Unblock(at)
		n++
	}
}

// TestAPreparedModelIsSolvedAsAnew solves one prepared model from several goroutines, and compares with Solve.
func TestAPreparedModelIsSolvedAsAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		want, err := optimizer.Solve(t.Context(), m, optimizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := optimizer.Prepare(m)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				got, err := p.Solve(t.Context(), optimizer.Options{})
				if err != nil || got.Status != want.Status || got.Objective != want.Objective || !slices.Equal(got.Picks, want.Picks) {
					t.Errorf("%+v, %v; anew %+v", got, err, want)
				}
			})
		}
		wg.Wait()
	})
}

package optimizer_test

import (
	"context"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

var grid = []struct {
	name          string
	shape         shape
	tasks, offers int
}{
	{"chain/10x50", chain, 10, 50},
	{"chain/30x100", chain, 30, 100},
	{"forkjoin/30x100", forkJoin, 30, 100},
	{"random/5x20", randomDAG, 5, 20},
	{"random/10x50", randomDAG, 10, 50},
	{"random/20x60", randomDAG, 20, 60},
	{"random/30x60", randomDAG, 30, 60},
	{"random/30x100", randomDAG, 30, 100},
	{"layered/1000x130", layered, 1000, 130},
	{"layered/10000x150", layered, 10000, 150},
}

func BenchmarkCost(b *testing.B) {
	benchmark(b, func(m *optimizer.Model) { m.Objective = optimizer.Cost })
}

func BenchmarkMakespan(b *testing.B) {
	benchmark(b, func(m *optimizer.Model) { m.Objective = optimizer.Makespan })
}

func BenchmarkCostWithinDeadline(b *testing.B) {
	benchmark(b, func(m *optimizer.Model) {
		cheap, fast := ends(b, m)
		deadline := 0.6*fast.Hours + 0.4*cheap.Hours
		m.Objective, m.DeadlineHours = optimizer.Cost, &deadline
	})
}

func BenchmarkMakespanWithinBudget(b *testing.B) {
	benchmark(b, func(m *optimizer.Model) {
		cheap, fast := ends(b, m)
		budget := 0.6*cheap.USD + 0.4*fast.USD
		m.Objective, m.BudgetUSD = optimizer.Makespan, &budget
	})
}

// BenchmarkReplan measures a new solution after the place of one task was blocked. The search starts from the current
// plan.
func BenchmarkReplan(b *testing.B) {
	var models []*optimizer.Model
	var hints [][]int
	for seed := range uint64(8) {
		m := generate(seed, randomDAG, 30, 100, 30)
		s := solve(b, m, optimizer.Options{})
		blocked := place(m, s.Picks, 7)
		for t := range m.Tasks {
			var left []optimizer.Candidate
			hint := -1
			for k, c := range m.Tasks[t].Candidates {
				if c.Place == blocked {
					continue
				}
				if k == s.Picks[t] {
					hint = len(left)
				}
				left = append(left, c)
			}
			m.Tasks[t].Candidates = left
			s.Picks[t] = hint
		}
		models, hints = append(models, m), append(hints, s.Picks)
	}
	n := 0
	for b.Loop() {
		solve(b, models[n%len(models)], optimizer.Options{Hint: hints[n%len(hints)]})
		n++
	}
}

// ends returns the cheapest and the fastest plan of m without limits.
func ends(b testing.TB, m *optimizer.Model) (cheap, fast *optimizer.Solution) {
	free := *m
	o := optimizer.Options{TimeLimit: 10 * time.Second}
	free.Objective = optimizer.Cost
	cheap = solve(b, &free, o)
	free.Objective = optimizer.Makespan
	return cheap, solve(b, &free, o)
}

func benchmark(b *testing.B, pose func(*optimizer.Model)) {
	for _, g := range grid {
		b.Run(g.name, func(b *testing.B) {
			seeds := uint64(8)
			if g.tasks > 100 {
				seeds = 1
			}
			var models []*optimizer.Model
			for seed := range seeds {
				m := generate(seed, g.shape, g.tasks, g.offers, 30)
				pose(m)
				models = append(models, m)
			}
			run(b, models, optimizer.Options{TimeLimit: 10 * time.Second})
		})
	}
}

func run(b *testing.B, models []*optimizer.Model, o optimizer.Options) {
	b.ReportAllocs()
	gap, n := 0.0, 0
	for b.Loop() {
		m := models[n%len(models)]
		s, err := optimizer.Solve(context.Background(), m, o)
		if err != nil {
			b.Fatal(err)
		}
		if s.Status == optimizer.Infeasible {
			b.Fatal(s.Message)
		}
		if s.Objective > 0 {
			gap = max(gap, (s.Objective-s.Bound)/s.Objective)
		}
		n++
	}
	b.ReportMetric(100*gap, "%gap")
}

package optimizer_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// drawn returns a model of n tasks with a candidate at each of several places.
func drawn(r *rand.Rand, n, places int, edges float64) *optimizer.Model {
	m := &optimizer.Model{Objective: optimizer.Cost}
	for p := range places {
		m.Places = append(m.Places, string(rune('a'+p)))
		usd, hours := make([]float64, places), make([]float64, places)
		for q := range places {
			if p != q {
				usd[q], hours[q] = 0.02+0.1*r.Float64(), 0.002
			}
		}
		m.USDPerGiB, m.HoursPerGiB = append(m.USDPerGiB, usd), append(m.HoursPerGiB, hours)
	}
	for i := range n {
		t := optimizer.Task{ID: "t" + string(rune('A'+i))}
		base := 0.5 + 5*r.Float64()
		for p := range places {
			speed := 0.5 + r.Float64()
			t.Candidates = append(t.Candidates, optimizer.Candidate{
				ID: m.Places[p], Place: p, USD: base / speed * (0.5 + 3*r.Float64()), Hours: base / speed,
			})
		}
		for j := range i {
			if r.Float64() < edges {
				m.Edges = append(m.Edges, optimizer.Edge{From: m.Tasks[j].ID, To: t.ID, GiB: 1 + 20*r.Float64()})
			}
		}
		m.Tasks = append(m.Tasks, t)
	}
	return m
}

// Every work limit must be kept, however small.
func TestSmallWorkLimit(t *testing.T) {
	m := drawn(rand.New(rand.NewPCG(7, 1)), 60, 25, 0.15)
	hours := 60.0
	m.DeadlineHours = &hours
	for _, work := range []int64{1, 2, 3} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := optimizer.Solve(ctx, m, optimizer.Options{WorkLimit: work}); ctx.Err() != nil {
			t.Errorf("a limit of %d steps was ignored: %v", work, err)
		}
		cancel()
	}
}

// A plan that is found within the work limit but not proven must have a bound, and it must be possible to encode it.
// This includes models with spread tasks in which a part of the search found nothing.
func TestUnprovenPlanHasBound(t *testing.T) {
	open := 0
	for seed := range uint64(12) {
		m := drawn(rand.New(rand.NewPCG(seed, 1)), 14, 8, 0.2)
		spread := optimizer.Spread{By: optimizer.ByPlace, Most: 2}
		for i := range 8 {
			spread.Tasks = append(spread.Tasks, m.Tasks[i].ID)
		}
		m.Spread = []optimizer.Spread{spread}
		ends := map[optimizer.Objective]*optimizer.Solution{}
		for _, o := range []optimizer.Objective{optimizer.Makespan, optimizer.Cost} {
			m.Objective = o
			sol, err := optimizer.Solve(t.Context(), m, optimizer.Options{WorkLimit: 3_000_000})
			if err != nil {
				t.Fatal(err)
			}
			ends[o] = sol
		}
		fast, cheap := ends[optimizer.Makespan], ends[optimizer.Cost]
		hours, usd := fast.Hours*0.7+cheap.Hours*0.3, (fast.USD+cheap.USD)/2
		m.DeadlineHours, m.BudgetUSD = &hours, &usd
		for _, work := range []int64{30_000, 100_000, 300_000} {
			sol, err := optimizer.Solve(t.Context(), m, optimizer.Options{WorkLimit: work})
			if err != nil || sol.Status != optimizer.Feasible {
				continue
			}
			open++
			_, err = json.Marshal(sol)
			if err != nil || !(sol.Bound >= 0 && sol.Bound <= sol.Objective) || math.IsNaN(sol.Bound) {
				t.Errorf("seed %d, %d steps: a bound of %v for %v, encoded: %v", seed, work, sol.Bound, sol.Objective, err)
			}
		}
	}
	if open == 0 {
		t.Error("all plans were proven, so nothing was tested")
	}
}

// A candidate emits far more than the cap. This must not be an error, whatever price the search sets on emissions.
func TestCarbonCapWithHugeEmissions(t *testing.T) {
	limit := 1.0
	for _, less := range []float64{1e-6, 1e-8, 1e-9} {
		m := &optimizer.Model{
			Objective: optimizer.Cost, CarbonCapKg: &limit,
			Places: []string{"p"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}},
			Tasks: []optimizer.Task{
				{ID: "a", Candidates: []optimizer.Candidate{
					{ID: "x", USD: 1, Hours: 1, KgCO2: 1}, {ID: "y", USD: 50, Hours: 1, KgCO2: 1 - less},
					{ID: "z", USD: 60, Hours: 1, KgCO2: 500},
				}},
				{ID: "b", Candidates: []optimizer.Candidate{{ID: "x", USD: 1, Hours: 1, KgCO2: less / 2}}},
			},
		}
		if _, err := optimizer.Solve(t.Context(), m, optimizer.Options{}); err != nil {
			t.Errorf("a candidate of %v kg less: %v", less, err)
		}
	}
}

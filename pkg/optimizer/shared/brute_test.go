package shared_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// tinyModel draws a model whose times are whole hours, so that some best plan has whole hours, too.
func tinyModel(t *rapid.T) *shared.Model {
	m := &shared.Model{
		Objective:   rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Cost, optimizer.Makespan}).Draw(t, "objective"),
		Places:      []string{"p", "q"},
		USDPerGiB:   [][]float64{{0, 0.5}, {1, 0}},
		HoursPerGiB: [][]float64{{float64(rapid.IntRange(0, 1).Draw(t, "near")), 1}, {2, 1}},
		// 0 means no limit.
		MostInstances: max(0, rapid.IntRange(-4, 2).Draw(t, "mostInstances")),
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "machines") {
		m.Machines = append(m.Machines, shared.Machine{
			ID: fmt.Sprint("m", i), Place: rapid.IntRange(0, 1).Draw(t, "place"),
			USDPerHour: float64(rapid.IntRange(1, 5).Draw(t, "price")),
			CPUs:       float64(rapid.IntRange(1, 3).Draw(t, "cpus")), MemoryGiB: float64(rapid.IntRange(1, 3).Draw(t, "memory")),
			Speed:          float64(rapid.IntRange(1, 2).Draw(t, "speed")),
			BootHours:      float64(rapid.IntRange(0, 1).Draw(t, "boot")),
			MinimumHours:   float64(rapid.IntRange(0, 2).Draw(t, "minimum")),
			IncrementHours: float64(rapid.IntRange(0, 2).Draw(t, "increment")),
			Most:           rapid.IntRange(1, 3).Draw(t, "most"),
		})
	}
	n := rapid.IntRange(1, 3).Draw(t, "tasks")
	for i := range n {
		m.Tasks = append(m.Tasks, shared.Task{
			ID: fmt.Sprint("t", i), CPUs: float64(rapid.IntRange(0, 2).Draw(t, "cpus")),
			MemoryGiB: float64(rapid.IntRange(0, 2).Draw(t, "memory")), Hours: float64(2 * rapid.IntRange(1, 2).Draw(t, "hours")),
		})
	}
	for i := range n {
		for j := range i {
			if rapid.Bool().Draw(t, "edge") {
				m.Edges = append(m.Edges, optimizer.Edge{From: fmt.Sprint("t", j), To: fmt.Sprint("t", i),
					GiB: float64(rapid.IntRange(0, 1).Draw(t, "gib"))})
			}
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
		deadline := float64(rapid.IntRange(2, tinyHorizon).Draw(t, "deadline"))
		m.DeadlineHours = &deadline
	}
	if rapid.IntRange(0, 3).Draw(t, "budgeted") == 0 {
		budget := float64(rapid.IntRange(1, 20).Draw(t, "budget"))
		m.BudgetUSD = &budget
	}
	return m
}

// tinyHorizon is enough for three tasks of four hours, a boot, and moves between them.
const tinyHorizon = 14

// brute returns the minimum objective over all whole start times and all assignments to instances, or +Inf.
func brute(m *shared.Model) float64 {
	best := math.Inf(1)
	n := len(m.Tasks)
	on, start := make([]int, n), make([]float64, n)
	var kinds []int
	var assign func(t int)
	assign = func(t int) {
		if m.MostInstances > 0 && len(kinds) > m.MostInstances {
			return
		}
		if t == n {
			count := map[int]int{}
			for _, k := range kinds {
				count[k]++
			}
			for k, c := range count {
				if c > m.Machines[k].Most {
					return
				}
			}
			bruteTimes(m, on, kinds, start, 0, &best)
			return
		}
		for i := range kinds {
			on[t] = i
			assign(t + 1)
		}
		for k := range m.Machines {
			kinds = append(kinds, k)
			on[t] = len(kinds) - 1
			assign(t + 1)
			kinds = kinds[:len(kinds)-1]
		}
	}
	assign(0)
	return best
}

func bruteTimes(m *shared.Model, on, kinds []int, start []float64, t int, best *float64) {
	if t == len(start) {
		*best = min(*best, brutePrice(m, on, kinds, start))
		return
	}
	k := &m.Machines[kinds[on[t]]]
	if m.Tasks[t].CPUs > k.CPUs || m.Tasks[t].MemoryGiB > k.MemoryGiB {
		return
	}
	from := k.BootHours
	for _, e := range m.Edges { // edges lead only from earlier tasks
		var p int
		if fmt.Sscanf(e.From, "t%d", &p); e.To == m.Tasks[t].ID {
			move := 0.0
			if on[p] != on[t] {
				move = e.GiB * m.HoursPerGiB[m.Machines[kinds[on[p]]].Place][k.Place]
			}
			from = max(from, start[p]+m.Tasks[p].Hours/m.Machines[kinds[on[p]]].Speed+move)
		}
	}
	for ; from <= tinyHorizon; from++ {
		start[t] = from
		if bruteFits(m, on, kinds, start, t) {
			bruteTimes(m, on, kinds, start, t+1, best)
		}
	}
}

// bruteFits reports whether the tasks up to t fit on the instance of t at each whole hour.
func bruteFits(m *shared.Model, on, kinds []int, start []float64, t int) bool {
	k := &m.Machines[kinds[on[t]]]
	for h := start[t]; h < start[t]+m.Tasks[t].Hours/k.Speed; h++ {
		cpus, memory := 0.0, 0.0
		for o := range t + 1 {
			if on[o] == on[t] && start[o] <= h && h < start[o]+m.Tasks[o].Hours/k.Speed {
				cpus, memory = cpus+m.Tasks[o].CPUs, memory+m.Tasks[o].MemoryGiB
			}
		}
		if cpus > k.CPUs || memory > k.MemoryGiB {
			return false
		}
	}
	return true
}

func brutePrice(m *shared.Model, on, kinds []int, start []float64) float64 {
	usd, hours := 0.0, 0.0
	for i, kind := range kinds {
		k := &m.Machines[kind]
		first, last := math.Inf(1), 0.0
		for t := range start {
			if on[t] == i {
				first, last = min(first, start[t]), max(last, start[t]+m.Tasks[t].Hours/k.Speed)
			}
		}
		billed := max(k.MinimumHours, last-first+k.BootHours)
		if k.IncrementHours > 0 {
			billed = math.Ceil(billed/k.IncrementHours) * k.IncrementHours
		}
		usd, hours = usd+k.USDPerHour*billed, max(hours, last)
	}
	for _, e := range m.Edges {
		var p, c int
		fmt.Sscanf(e.From, "t%d", &p)
		fmt.Sscanf(e.To, "t%d", &c)
		if on[p] != on[c] {
			usd += e.GiB * m.USDPerGiB[m.Machines[kinds[on[p]]].Place][m.Machines[kinds[on[c]]].Place]
		}
	}
	if m.DeadlineHours != nil && hours > *m.DeadlineHours || m.BudgetUSD != nil && usd > *m.BudgetUSD {
		return math.Inf(1)
	}
	if m.Objective == optimizer.Makespan {
		return hours
	}
	return usd
}

// Every tiny model must get its best plan, with a bound that is not above it. It may be reported as infeasible only
// if no plan exists.
func TestTinyModelsAreSolvedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := tinyModel(t)
		best := brute(m)
		s, err := shared.Solve(context.Background(), m, shared.Options{Effort: 0.2})
		switch {
		case errors.Is(err, optimizer.ErrUndecided):
			if !math.IsInf(best, 1) {
				t.Fatalf("no plan was found, but one has %v", best)
			}
			return
		case err != nil:
			t.Fatal(err)
		case s.Plan == nil:
			if !math.IsInf(best, 1) {
				t.Fatalf("%s, but a plan has %v", s.Message, best)
			}
			return
		}
		checkSolution(t, m, s)
		objective := s.Plan.USD
		if m.Objective == optimizer.Makespan {
			objective = s.Plan.Hours
		}
		if objective > best*(1+1e-9) {
			t.Fatalf("the plan has %v, but the best has %v", objective, best)
		}
		if s.Bound > best || s.Status == optimizer.Optimal && s.Bound < best*(1-1e-8) {
			t.Fatalf("%s with bound %v, but the best has %v", s.Status, s.Bound, best)
		}
	})
}

// smallModel draws a model with arbitrary numbers.
func smallModel(t *rapid.T) *shared.Model {
	amount := func(name string, most float64) float64 {
		return rapid.OneOf(rapid.SampledFrom([]float64{0, most, most / 2, most / 3, 1e-9 * most}),
			rapid.Float64Range(0, most)).Draw(t, name)
	}
	m := &shared.Model{
		Objective:     rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan}).Draw(t, "objective"),
		MostInstances: max(0, rapid.IntRange(-5, 5).Draw(t, "mostInstances")),
	}
	places := rapid.IntRange(1, 3).Draw(t, "places")
	for i := range places {
		m.Places = append(m.Places, fmt.Sprint("p", i))
		var usd, hours []float64
		for range places {
			usd, hours = append(usd, amount("usd", 0.2)), append(hours, amount("hours", 0.1))
		}
		m.USDPerGiB, m.HoursPerGiB = append(m.USDPerGiB, usd), append(m.HoursPerGiB, hours)
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "machines") {
		m.Machines = append(m.Machines, shared.Machine{
			ID: fmt.Sprint("m", i), Place: rapid.IntRange(0, places-1).Draw(t, "place"), USDPerHour: amount("price", 3),
			CPUs: amount("cpus", 8), MemoryGiB: amount("memory", 32), GPUs: amount("gpus", 2), Speed: 0.1 + amount("speed", 3),
			BootHours: amount("boot", 0.1), MinimumHours: amount("minimum", 1), IncrementHours: amount("increment", 1),
			Most: rapid.IntRange(0, 20).Draw(t, "most"),
		})
	}
	n := rapid.IntRange(1, 25).Draw(t, "tasks")
	for i := range n {
		m.Tasks = append(m.Tasks, shared.Task{ID: fmt.Sprint("t", i), CPUs: amount("cpus", 2), MemoryGiB: amount("memory", 8),
			GPUs: rapid.SampledFrom([]float64{0, 0, 0, 0.1, 1}).Draw(t, "gpus"), Hours: amount("hours", 4)})
	}
	for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
		if a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b"); a < b {
			m.Edges = append(m.Edges, optimizer.Edge{From: fmt.Sprint("t", a), To: fmt.Sprint("t", b), GiB: amount("gib", 5)})
		}
	}
	if rapid.Bool().Draw(t, "limited") {
		deadline := amount("deadline", 40)
		m.DeadlineHours = &deadline
	}
	if rapid.IntRange(0, 3).Draw(t, "budgeted") == 0 {
		budget := amount("budget", 100)
		m.BudgetUSD = &budget
	}
	return m
}

// Every plan must be valid without tolerance. Solving the same model again must give the same plan.
func TestPlansAreValidAndRepeatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		o := shared.Options{Effort: 0.05}
		s, err := shared.Solve(context.Background(), m, o)
		if errors.Is(err, optimizer.ErrUndecided) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.Plan == nil {
			return
		}
		checkSolution(t, m, s)
		again, err := shared.Solve(context.Background(), m, o)
		if err != nil || again.Plan == nil || fmt.Sprint(*again.Plan) != fmt.Sprint(*s.Plan) {
			t.Fatalf("another plan: %v, %v", again, err)
		}
	})
}

// No plan of a tiny model may be below the bound, and a model with a plan must not be reported as infeasible.
func TestBoundIsNotAboveBestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := tinyModel(t)
		best := brute(m)
		bound, message, err := shared.Bound(m)
		if err != nil {
			t.Fatal(err)
		}
		if bound > best || message != "" && !math.IsInf(best, 1) {
			t.Fatalf("the bound is %v (%s), but the best plan has %v", bound, message, best)
		}
	})
}

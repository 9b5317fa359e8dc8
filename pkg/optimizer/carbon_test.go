package optimizer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// carbonModel draws a small model with emissions. Its objective and limits are random.
func carbonModel(t *rapid.T) *optimizer.Model {
	m := smallModel(t)
	m.Objective = rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan, optimizer.Carbon}).Draw(t, "objective")
	kg := rapid.SampledFrom([]float64{0, 0.5, 1, 1, 2, 3.25, 4.5, 7})
	for i := range m.Tasks {
		for k := range m.Tasks[i].Candidates {
			m.Tasks[i].Candidates[k].KgCO2 = kg.Draw(t, "kg")
		}
	}
	bound := func(name string, most int) *float64 {
		if !rapid.Bool().Draw(t, name) {
			return nil
		}
		x := float64(rapid.IntRange(0, most).Draw(t, name)) / 2
		return &x
	}
	m.DeadlineHours, m.BudgetUSD, m.CarbonCapKg = bound("deadline", 60), bound("budget", 80), bound("cap", 40)
	return m
}

func emitted(m *optimizer.Model, picks []int) float64 {
	kg := 0.0
	for t, k := range picks {
		kg += m.Tasks[t].Candidates[k].KgCO2
	}
	return kg
}

func keepsCap(m *optimizer.Model, kg float64) bool {
	return m.CarbonCapKg == nil || kg <= *m.CarbonCapKg*(1+1e-9)+1e-12
}

// bruteCarbon returns the minimum objective over all plans within the limits.
func bruteCarbon(m *optimizer.Model) (objective float64, ok bool) {
	objective = math.Inf(1)
	everyPlan(m, func(picks []int, usd, hours float64) {
		kg := emitted(m, picks)
		if !keepsBounds(m, usd, hours) || !keepsCap(m, kg) {
			return
		}
		ok = true
		objective = min(objective, map[optimizer.Objective]float64{optimizer.Cost: usd, optimizer.Makespan: hours, optimizer.Carbon: kg}[m.Objective])
	})
	return objective, ok
}

func TestCarbonMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := carbonModel(t)
		want, ok := bruteCarbon(m)
		got := solve(t, m, optimizer.Options{})
		if (got.Status != optimizer.Infeasible) != ok {
			t.Fatalf("%s %s; a plan exists: %v", got.Status, got.Message, ok)
		}
		if !ok {
			return
		}
		usd, hours := evaluate(m, got.Picks)
		if got.Status != optimizer.Optimal || !same(got.Objective, want) || !same(got.USD, usd) || !same(got.Hours, hours) || !same(got.KgCO2, emitted(m, got.Picks)) {
			t.Fatalf("%+v, want %v; the plan is %v USD, %v h, %v kg", got, want, usd, hours, emitted(m, got.Picks))
		}
	})
}

// An infeasible model names the emission cap that it would need. With that cap, it must be feasible.
func TestRelaxedCarbonCapIsFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := carbonModel(t)
		s := solve(t, m, optimizer.Options{})
		if s.Status != optimizer.Infeasible || s.Reason.Constraint != optimizer.CarbonCap {
			return
		}
		if !s.Reason.Exact || !strings.Contains(s.Message, "raise it by") {
			t.Fatalf("%+v: %s", s.Reason, s.Message)
		}
		relaxed := *m
		relaxed.CarbonCapKg = &s.Reason.LeastKgCO2
		if got := solve(t, &relaxed, optimizer.Options{}); got.Status != optimizer.Optimal {
			t.Fatalf("with a cap of %v kg it is infeasible: %s", s.Reason.LeastKgCO2, got.Message)
		}
	})
}

func TestCarbonTieIsBrokenByCost(t *testing.T) {
	m := generate(1, chain, 6, 12, 4)
	m.Objective = optimizer.Carbon
	s := solve(t, m, optimizer.Options{}) // all emissions are zero
	m.Objective = optimizer.Cost
	if cheap := solve(t, m, optimizer.Options{}); !same(s.USD, cheap.USD) || s.Objective != 0 {
		t.Errorf("%v USD, but the cheapest plan costs %v", s.USD, cheap.USD)
	}
}

func TestWorkLimitRespectsCarbonCap(t *testing.T) {
	m := generate(5, randomDAG, 20, 40, 10)
	for i := range m.Tasks {
		for k := range m.Tasks[i].Candidates {
			c := &m.Tasks[i].Candidates[k]
			c.KgCO2 = c.Hours * float64(1+(c.Place*7)%10)
		}
	}
	m.Objective = optimizer.Carbon
	least := solve(t, m, optimizer.Options{})
	m.Objective = optimizer.Cost
	free := solve(t, m, optimizer.Options{})
	limit := (least.KgCO2 + free.KgCO2) / 2
	m.CarbonCapKg = &limit
	for _, work := range []int64{200_000, 5_000_000} {
		s := solve(t, m, optimizer.Options{WorkLimit: work})
		if s.KgCO2 > limit*(1+1e-9) || s.Bound > s.Objective || s.Bound < free.USD*(1-1e-9) {
			t.Errorf("work %d: %s %v USD, bound %v, %v kg of %v", work, s.Status, s.USD, s.Bound, s.KgCO2, limit)
		}
	}
}

func TestCarbonDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := carbonModel(t)
		a, b := solve(t, m, optimizer.Options{}), solve(t, shuffled(t, m), optimizer.Options{})
		if a.Status != b.Status || a.Objective != b.Objective || a.USD != b.USD || a.Hours != b.Hours || a.KgCO2 != b.KgCO2 {
			t.Fatalf("got %+v, shuffled %+v", a, b)
		}
		if !reflect.DeepEqual(a.Choice, b.Choice) {
			t.Fatalf("chose %v, shuffled %v", a.Choice, b.Choice)
		}
	})
}

// The search is stopped at every stage. Its bound must never exceed the optimum.
func TestCarbonBoundNeverExceedsOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := carbonModel(t)
		want, ok := bruteCarbon(m)
		work := int64(rapid.IntRange(1, 5000).Draw(t, "work"))
		s, err := optimizer.Solve(context.Background(), m, optimizer.Options{WorkLimit: work})
		switch {
		case errors.Is(err, optimizer.ErrUndecided):
		case err != nil:
			t.Fatalf("Solve: %v", err)
		case (s.Status == optimizer.Infeasible) == ok:
			t.Fatalf("%s; a plan exists: %v", s.Message, ok)
		case ok && (s.Bound > want*(1+1e-9) || s.Objective < want*(1-1e-9)):
			t.Fatalf("%s: bound %v and objective %v, optimum %v", s.Status, s.Bound, s.Objective, want)
		}
	})
}

// Many tasks are equal, so a price on emissions moves all of them at once. The plan must still use the room under the
// cap.
func TestRoomUnderCarbonCapIsUsed(t *testing.T) {
	m := &optimizer.Model{Objective: optimizer.Cost, Places: []string{"p"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}}}
	for i := range 60 {
		m.Tasks = append(m.Tasks, optimizer.Task{ID: fmt.Sprint(i), Candidates: []optimizer.Candidate{
			{ID: "cheap", USD: 1, Hours: 1, KgCO2: 2}, {ID: "clean", USD: 3, Hours: 1},
		}})
	}
	limit := 61.0
	m.CarbonCapKg = &limit
	s := solve(t, m, optimizer.Options{WorkLimit: 200_000})
	if want := 30*1 + 30*3.0; s.USD != want || s.Bound < want-1.001 {
		t.Errorf("%v USD, not below %v; the optimum is %v", s.USD, s.Bound, want)
	}
}

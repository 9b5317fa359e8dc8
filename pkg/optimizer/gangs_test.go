package optimizer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// gangs returns a model of n gangs of two one-hour tasks with one candidate at each of several sites, and a separate
// task of ten hours.
func gangs(n, sites int, candidate func(site int) optimizer.Candidate) *optimizer.Model {
	m := &optimizer.Model{Objective: optimizer.Makespan, Tasks: []optimizer.Task{
		{ID: "long", Candidates: []optimizer.Candidate{{ID: "c", USD: 1, Hours: 10}}},
	}}
	for p := range sites {
		m.Places = append(m.Places, fmt.Sprint("p", p))
		m.USDPerGiB = append(m.USDPerGiB, make([]float64, sites))
		m.HoursPerGiB = append(m.HoursPerGiB, make([]float64, sites))
	}
	for g := range n {
		var ids []string
		for k := range 2 {
			task := optimizer.Task{ID: fmt.Sprintf("g%d-%d", g, k)}
			for p := range sites {
				c := candidate(p)
				c.ID, c.Place = m.Places[p], p
				task.Candidates = append(task.Candidates, c)
			}
			m.Tasks, ids = append(m.Tasks, task), append(ids, task.ID)
		}
		m.Together = append(m.Together, ids)
	}
	return m
}

// enough is the work limit for models with gangs. It is far below the 20^8 ways to choose the sites of eight gangs.
var enough = optimizer.Options{WorkLimit: 2_000_000}

// Many plans are equally fast. The cheapest of them must be found without trying each of them.
func TestManyEquallyFastGangs(t *testing.T) {
	m := gangs(8, 20, func(site int) optimizer.Candidate {
		return optimizer.Candidate{USD: 1 + 0.1*float64((site+7)%20), Hours: 1 + 0.05*float64((site*3)%20)}
	})
	sol, err := optimizer.Solve(t.Context(), m, enough)
	if err != nil || sol.Status != optimizer.Optimal || sol.Hours != 10 || math.Abs(sol.USD-17) > 1e-9 {
		t.Errorf("%+v, %v", sol, err)
	}
	m.Objective = optimizer.Carbon // all emissions are zero
	if sol, err = optimizer.Solve(t.Context(), m, enough); err != nil || math.Abs(sol.USD-17) > 1e-9 {
		t.Errorf("carbon: %+v, %v", sol, err)
	}
}

// At some sites, a gang alone exceeds a limit. The search must not try combinations of such sites.
func TestManyGangsWithFewPossibleSites(t *testing.T) {
	m := gangs(8, 20, func(site int) optimizer.Candidate {
		if site < 19 {
			return optimizer.Candidate{USD: 1, Hours: 20}
		}
		return optimizer.Candidate{USD: 4, Hours: 1}
	})
	m.Objective = optimizer.Cost
	hours := 12.0
	m.DeadlineHours = &hours
	sol, err := optimizer.Solve(t.Context(), m, enough)
	if err != nil || sol.Status != optimizer.Optimal || sol.USD != 65 {
		t.Errorf("%+v, %v", sol, err)
	}
	usd := 30.0
	m.DeadlineHours, m.BudgetUSD, m.Objective = nil, &usd, optimizer.Makespan
	if sol, err := optimizer.Solve(t.Context(), m, enough); err != nil || sol.Hours != 20 {
		t.Errorf("a budget for a few fast ones: %+v, %v", sol, err)
	}
	usd = 16.0
	sol, err = optimizer.Solve(t.Context(), m, enough)
	if err != nil || sol.Status != optimizer.Infeasible || sol.Reason.Constraint != optimizer.Budget ||
		math.Abs(sol.Reason.LeastUSD-17) > 1e-6 {
		t.Errorf("a budget for none: %+v, %v", sol, err)
	}
}

// The context has ended. Solve must fail at any state of the search.
func TestGangsStopWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := gangs(4, 20, func(int) optimizer.Candidate { return optimizer.Candidate{USD: 1, Hours: 1} })
	if _, err := optimizer.Solve(ctx, m, optimizer.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The reason for an infeasible model with groups or spread must be a lower bound: no smaller relaxation makes the
// model feasible. It must not report missing candidates if the model has plans without its limits.
func TestReasonsOfGroupsAreLowerBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, kept := groupedModel, isTogether
		if rapid.Bool().Draw(t, "spread") {
			m, kept = spreadModel, isSpread
		}
		checkReason(t, m(t), kept)
	})
}

func checkReason(t *rapid.T, m *optimizer.Model, kept func(*optimizer.Model, []int) bool) {
	m.Objective = rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan}).Draw(t, "objective")
	limit := rapid.SampledFrom([]float64{0.5, 1, 3, 6, 10})
	hours, usd := math.Inf(1), math.Inf(1)
	m.DeadlineHours, m.BudgetUSD, m.CarbonCapKg = nil, nil, nil
	if rapid.Bool().Draw(t, "deadline") {
		hours = limit.Draw(t, "hours")
		m.DeadlineHours = &hours
	}
	if rapid.Bool().Draw(t, "budget") {
		usd = limit.Draw(t, "usd")
		m.BudgetUSD = &usd
	}
	sol, err := optimizer.Solve(context.Background(), m, optimizer.Options{})
	if err != nil || sol.Status != optimizer.Infeasible {
		return
	}
	any, leastHours, leastUSD := false, math.Inf(1), math.Inf(1)
	everyPlan(m, func(picks []int, cost, span float64) {
		if !kept(m, picks) {
			return
		}
		any = true
		if cost <= usd {
			leastHours = min(leastHours, span)
		}
		if span <= hours {
			leastUSD = min(leastUSD, cost)
		}
	})
	r := sol.Reason
	switch {
	case any && r.Constraint == optimizer.NoCandidates:
		t.Fatalf("plans exist, but the message is %q", sol.Message)
	case sol.Message == "":
		t.Fatalf("the reason %+v has no bounds", r)
	case r.LeastHours > leastHours*(1+1e-9):
		t.Fatalf("a deadline of %v h is enough, but the message is %q (%+v)", leastHours, sol.Message, r)
	case r.LeastUSD > leastUSD*(1+1e-9):
		t.Fatalf("a budget of %v is enough, but the message is %q (%+v)", leastUSD, sol.Message, r)
	}
}

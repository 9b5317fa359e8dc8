package optimizer_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// spreadModel draws a small model whose tasks are spread over places or zones. Some tasks have several machines. Some
// models also have Together groups, and some have several equal tasks.
func spreadModel(t *rapid.T) *optimizer.Model {
	m := smallModel(t)
	if rapid.Bool().Draw(t, "together") {
		m = groupedModel(t)
	}
	alike := rapid.Bool().Draw(t, "alike")
	for i := range m.Tasks {
		if i > 0 && alike && rapid.Bool().Draw(t, "as the first") {
			m.Tasks[i].Candidates = append([]optimizer.Candidate(nil), m.Tasks[0].Candidates...)
			continue
		}
		for k := range m.Tasks[i].Candidates {
			m.Tasks[i].Candidates[k].Zone = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "zone")
		}
	}
	for range rapid.IntRange(1, 2).Draw(t, "groups") {
		g := optimizer.Spread{
			By:   rapid.SampledFrom([]optimizer.SiteKind{optimizer.ByPlace, optimizer.ByZone}).Draw(t, "by"),
			Most: rapid.IntRange(1, 3).Draw(t, "most"),
		}
		heavy := rapid.Bool().Draw(t, "heavy")
		for i := range m.Tasks {
			if rapid.IntRange(0, 3).Draw(t, "in") > 0 {
				g.Tasks = append(g.Tasks, m.Tasks[i].ID)
				if heavy {
					g.Machines = append(g.Machines, rapid.IntRange(1, 2).Draw(t, "machines"))
				}
			}
		}
		m.Spread = append(m.Spread, g)
	}
	return m
}

// isSpread reports, by the definition, whether a plan satisfies the Spread groups of its model.
func isSpread(m *optimizer.Model, picks []int) bool {
	index := map[string]int{}
	for i := range m.Tasks {
		index[m.Tasks[i].ID] = i
	}
	for _, g := range m.Spread {
		used := map[string]int{}
		for k, id := range g.Tasks {
			c := &m.Tasks[index[id]].Candidates[picks[index[id]]]
			site := fmt.Sprint(c.Place)
			if g.By == optimizer.ByZone {
				site += "/" + c.Zone
			}
			n := 1
			if g.Machines != nil {
				n = g.Machines[k]
			}
			if used[site] += n; used[site] > g.Most {
				return false
			}
		}
	}
	return isTogether(m, picks)
}

func TestSpreadMatchesBruteForce(t *testing.T) {
	crowded := 0
	rapid.Check(t, func(t *rapid.T) {
		m := spreadModel(t)
		m.Objective = rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan, optimizer.Carbon}).
			Draw(t, "objective")
		bound := rapid.SampledFrom([]float64{1, 3, 6, 10, 20, 40})
		if rapid.Bool().Draw(t, "deadline") {
			d := bound.Draw(t, "hours")
			m.DeadlineHours = &d
		}
		if rapid.Bool().Draw(t, "budget") {
			b := bound.Draw(t, "usd")
			m.BudgetUSD = &b
		}
		best, free, ok := math.Inf(1), math.Inf(1), false
		everyPlan(m, func(picks []int, usd, hours float64) {
			if !keepsBounds(m, usd, hours) {
				return
			}
			kg := 0.0
			for i, k := range picks {
				kg += m.Tasks[i].Candidates[k].KgCO2
			}
			x := map[optimizer.Objective]float64{optimizer.Cost: usd, optimizer.Makespan: hours,
				optimizer.Carbon: kg}[m.Objective]
			if free = min(free, x); isSpread(m, picks) {
				ok, best = true, min(best, x)
			}
		})
		if best > free {
			crowded++
		}
		var hint []int
		if rapid.Bool().Draw(t, "hint") {
			for i := range m.Tasks {
				hint = append(hint, rapid.IntRange(-1, len(m.Tasks[i].Candidates)-1).Draw(t, "pick"))
			}
		}
		sol, err := optimizer.Solve(context.Background(), m, optimizer.Options{Hint: hint})
		if err != nil {
			t.Fatal(err)
		}
		if (sol.Status != optimizer.Infeasible) != ok {
			t.Fatalf("got %s %q, brute force %v", sol.Status, sol.Message, ok)
		}
		if !ok {
			if sol.Reason == nil || sol.Message == "" {
				t.Fatalf("no reason: %+v", sol)
			}
			return
		}
		if sol.Status != optimizer.Optimal || !same(sol.Objective, best) || !same(sol.Bound, best) || !isSpread(m,
			sol.Picks) {
			t.Fatalf("%s %g (bound %g, spread %v), brute force %g", sol.Status, sol.Objective, sol.Bound,
				isSpread(m, sol.Picks), best)
		}
		for i, k := range sol.Picks {
			if sol.Choice[m.Tasks[i].ID] != m.Tasks[i].Candidates[k].ID {
				t.Fatalf("picks %d for %s, but chooses %s", k, m.Tasks[i].ID, sol.Choice[m.Tasks[i].ID])
			}
		}
		explainer, err := optimizer.NewExplainer(m, sol)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Tasks {
			runners, err := explainer.Alternatives(m.Tasks[i].ID, 9)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runners {
				picks := append([]int(nil), sol.Picks...)
				if picks[i] = r.Candidate; !isSpread(m, picks) {
					t.Fatalf("runner %s for %s violates a group", r.ID, m.Tasks[i].ID)
				}
			}
		}
	})
	if crowded < 5 && !testing.Short() { // short test runs check a fifth of the models
		t.Errorf("only in %d models do the groups cost anything", crowded)
	}
}

// With any work limit, a plan must satisfy the groups, and no plan may be below the bound.
func TestStoppedSpreadSearchIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := spreadModel(t)
		m.Objective = optimizer.Cost
		sol, err := optimizer.Solve(context.Background(), m, optimizer.Options{WorkLimit: rapid.Int64Range(1,
			300).Draw(t, "work")})
		if err != nil || sol.Status == optimizer.Infeasible {
			return // undecided or infeasible; another test compares that with brute force
		}
		if !isSpread(m, sol.Picks) {
			t.Fatalf("%+v violates a group", sol)
		}
		everyPlan(m, func(picks []int, usd, _ float64) {
			if isSpread(m, picks) && usd < sol.Bound*(1-1e-9)-1e-12 {
				t.Fatalf("a plan of %g is below the bound %g (%s)", usd, sol.Bound, sol.Status)
			}
		})
	})
}

func TestFrontierOfSpreadModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := spreadModel(t)
		m.Objective = optimizer.Cost
		front, err := optimizer.Frontier(context.Background(), m, optimizer.FrontierOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range front.Points {
			if usd, hours := evaluate(m, p.Picks); !isSpread(m, p.Picks) || !same(usd, p.USD) || !same(hours, p.Hours) {
				t.Fatalf("a point %g USD %g h is %g and %g, spread %v", p.USD, p.Hours, usd, hours, isSpread(m,
					p.Picks))
			}
		}
		everyPlan(m, func(picks []int, usd, hours float64) {
			if !front.Complete || !isSpread(m, picks) {
				return
			}
			for _, p := range front.Points {
				if p.USD <= usd*(1+1e-7)+1e-9 && p.Hours <= hours*(1+1e-7)+1e-9 {
					return
				}
			}
			t.Fatalf("the front lacks %g USD and %g h: %+v", usd, hours, front.Points)
		})
	})
}

// Equal tasks that can run at any site must be spread without a search.
func TestSpreadOfManyEqualTasks(t *testing.T) {
	const tasks = 24
	m := &optimizer.Model{Objective: optimizer.Cost, Places: []string{"p"}, USDPerGiB: [][]float64{{0}},
		HoursPerGiB: [][]float64{{0}}, Spread: []optimizer.Spread{{By: optimizer.ByZone, Most: 2}}}
	want := 0.0
	for i := range tasks {
		task := optimizer.Task{ID: fmt.Sprint("t", i)}
		for z := range 20 {
			task.Candidates = append(task.Candidates, optimizer.Candidate{ID: fmt.Sprint(z), Zone: fmt.Sprint(z),
				USD: 1 + float64(z)/10, Hours: 1})
		}
		m.Tasks = append(m.Tasks, task)
		m.Spread[0].Tasks = append(m.Spread[0].Tasks, task.ID)
		want += 1 + float64(i/2)/10
	}
	sol, err := optimizer.Solve(context.Background(), m, optimizer.Options{WorkLimit: 5_000_000})
	if err != nil || sol.Status != optimizer.Optimal || !same(sol.USD, want) {
		t.Fatalf("%+v, %v; the minimum is %g", sol, err, want)
	}
}

func TestValidateChecksSpread(t *testing.T) {
	for text, want := range map[string]string{
		`{"tasks":["a","c"],"by":"zone","most":1}`:                  `spread[0].tasks[1]: no task has the id "c"`,
		`{"tasks":["a","a"],"by":"zone","most":1}`:                  `spread[0].tasks[1]: "a" is listed twice`,
		`{"tasks":["a"],"by":"rack","most":1}`:                      `spread[0].by: "rack" is neither "place" nor "zone"`,
		`{"tasks":["a"],"by":"zone","most":0}`:                      `spread[0].most: 0 is less than 1`,
		`{"tasks":["a","b"],"machines":[1],"by":"zone","most":1}`:   `spread[0].machines: 1 numbers for 2 tasks`,
		`{"tasks":["a","b"],"machines":[1,0],"by":"zone","most":1}`: `spread[0].machines[1]: 0 is less than 1`,
		`{"tasks":["a","b"],"by":"zone","most":1.5}`:                `spread[0].most: 1.5 is not a number of machines`,
	} {
		_, err := optimizer.ReadModel(strings.NewReader(`{"objective":"cost","places":["p"],"usdPerGiB":[[0]],
			"hoursPerGiB":[[0]],"edges":[],"tasks":[{"id":"a","candidates":[{"id":"x","place":0,"usd":1,"hours":1}]},
			{"id":"b","candidates":[{"id":"x","place":0,"usd":1,"hours":1,"zone":"z"}]}],"spread":[` + text + `]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

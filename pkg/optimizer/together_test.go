package optimizer_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// groupedModel draws a small model with Together groups. The sites of some groups are smaller than places.
func groupedModel(t *rapid.T) *optimizer.Model {
	m := smallModel(t)
	of := make([]int, len(m.Tasks))
	for i := range m.Tasks {
		of[i] = rapid.IntRange(0, 2).Draw(t, "group")
		for k := range m.Tasks[i].Candidates {
			c := &m.Tasks[i].Candidates[k]
			c.KgCO2 = rapid.SampledFrom([]float64{0, 1, 2, 5}).Draw(t, "kg")
			if of[i] == 2 {
				c.Site = fmt.Sprintf("%s-%d", m.Places[c.Place], rapid.IntRange(0, 1).Draw(t, "zone"))
			}
		}
	}
	for g := 1; g <= 2; g++ {
		var ids []string
		for i := range of {
			if of[i] == g {
				ids = append(ids, m.Tasks[i].ID)
			}
		}
		m.Together = append(m.Together, ids)
	}
	return m
}

func siteOf(m *optimizer.Model, c *optimizer.Candidate) string {
	if c.Site != "" {
		return c.Site
	}
	return m.Places[c.Place]
}

// isTogether reports whether a plan satisfies the Together groups of its model.
func isTogether(m *optimizer.Model, picks []int) bool {
	index := map[string]int{}
	for i := range m.Tasks {
		index[m.Tasks[i].ID] = i
	}
	for _, ids := range m.Together {
		for _, id := range ids {
			first, this := index[ids[0]], index[id]
			if siteOf(m, &m.Tasks[first].Candidates[picks[first]]) != siteOf(m, &m.Tasks[this].Candidates[picks[this]]) {
				return false
			}
		}
	}
	return true
}

func TestTogetherMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := groupedModel(t)
		m.Objective = rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan, optimizer.Carbon}).Draw(t, "objective")
		bound := rapid.SampledFrom([]float64{1, 3, 6, 10, 20, 40})
		if rapid.Bool().Draw(t, "deadline") {
			d := bound.Draw(t, "hours")
			m.DeadlineHours = &d
		}
		if rapid.Bool().Draw(t, "budget") {
			b := bound.Draw(t, "usd")
			m.BudgetUSD = &b
		}
		best, ok := math.Inf(1), false
		everyPlan(m, func(picks []int, usd, hours float64) {
			if !isTogether(m, picks) || !keepsBounds(m, usd, hours) {
				return
			}
			kg := 0.0
			for i, k := range picks {
				kg += m.Tasks[i].Candidates[k].KgCO2
			}
			ok = true
			best = min(best, map[optimizer.Objective]float64{optimizer.Cost: usd, optimizer.Makespan: hours, optimizer.Carbon: kg}[m.Objective])
		})
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
		if sol.Status != optimizer.Optimal || !same(sol.Objective, best) || !same(sol.Bound, best) || !isTogether(m, sol.Picks) {
			t.Fatalf("%s %g (bound %g, together %v), brute force %g", sol.Status, sol.Objective, sol.Bound, isTogether(m, sol.Picks), best)
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
				if picks[i] = r.Candidate; !isTogether(m, picks) {
					t.Fatalf("runner %s for %s is not together with its group", r.ID, m.Tasks[i].ID)
				}
			}
		}
	})
}

func TestFrontierOfTogetherModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := groupedModel(t)
		front, err := optimizer.Frontier(context.Background(), m, optimizer.FrontierOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range front.Points {
			if usd, hours := evaluate(m, p.Picks); !isTogether(m, p.Picks) || !same(usd, p.USD) || !same(hours, p.Hours) {
				t.Fatalf("a point %g USD %g h is %g and %g, together %v", p.USD, p.Hours, usd, hours, isTogether(m, p.Picks))
			}
		}
		everyPlan(m, func(picks []int, usd, hours float64) {
			if !front.Complete || !isTogether(m, picks) {
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

func TestValidateChecksTogether(t *testing.T) {
	for text, want := range map[string]string{
		`[["a","b"],["b"]]`: `together[1][0]: "b" is in together[0][1] already`,
		`[["a","c"]]`:       `together[0][1]: no task has the id "c"`,
		`[["a",3]]`:         "together[0][1]: is a number, not a string",
	} {
		_, err := optimizer.ReadModel(strings.NewReader(`{"objective":"cost","places":["p"],"usdPerGiB":[[0]],"hoursPerGiB":[[0]],"edges":[],
			"tasks":[{"id":"a","candidates":[{"id":"x","place":0,"usd":1,"hours":1}]},{"id":"b","candidates":[{"id":"x","place":0,"usd":1,"hours":1,"site":"z"}]}],
			"together":` + text + `}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

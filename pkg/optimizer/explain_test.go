package optimizer_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// Runner-ups are the other candidates of a task, in the order of preference. The cost and hours of each must be
// those of the plan with that candidate.
func TestRunnersMatchSwappingOneTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		s := solve(t, m, optimizer.Options{})
		if s.Status == optimizer.Infeasible {
			return
		}
		i := rapid.IntRange(0, len(m.Tasks)-1).Draw(t, "task")
		runners, err := explain(m, s, m.Tasks[i].ID, 100)
		if err != nil {
			t.Fatal(err)
		}
		if want := len(m.Tasks[i].Candidates) - 1; len(runners) != want {
			t.Fatalf("%d runners of %d", len(runners), want)
		}
		for k, r := range runners {
			picks := slices.Clone(s.Picks)
			picks[i] = r.Candidate
			usd, hours := evaluate(m, picks)
			if !same(usd, r.USD) || !same(hours, r.Hours) || !same(usd-s.USD, r.AddUSD) || !same(hours-s.Hours, r.AddHours) {
				t.Fatalf("runner %+v, but %v USD and %v h", r, usd, hours)
			}
			if (r.Breaks == "") != keepsBounds(m, usd, hours) {
				t.Fatalf("runner %+v exceeds %q", r, r.Breaks)
			}
			if k > 0 && better(m, r, runners[k-1]) {
				t.Fatalf("runner %+v after %+v", r, runners[k-1])
			}
			if r.Breaks == "" && better(m, r, optimizer.Alternative{USD: s.USD * (1 - 1e-9), Hours: s.Hours * (1 - 1e-9)}) {
				t.Fatalf("runner %+v is better than the optimum %v", r, s.Objective)
			}
		}
	})
}

// The models have a carbon objective or an emission cap. Runner-ups must take emissions into account.
func TestRunnersCountEmissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := carbonModel(t)
		s := solve(t, m, optimizer.Options{})
		if s.Status == optimizer.Infeasible {
			return
		}
		for i := range m.Tasks {
			runners, err := explain(m, s, m.Tasks[i].ID, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runners {
				picks := slices.Clone(s.Picks)
				picks[i] = r.Candidate
				usd, hours := evaluate(m, picks)
				kg := emitted(m, picks)
				keeps := keepsBounds(m, usd, hours) && keepsCap(m, kg)
				if !same(kg-s.KgCO2, r.AddKgCO2) || (r.Breaks == "") != keeps {
					t.Fatalf("runner %+v, but %v kg of %v, within the limits: %v", r, kg, s.KgCO2, keeps)
				}
				if m.Objective == optimizer.Carbon && keeps && r.AddKgCO2 < -1e-9 {
					t.Fatalf("runner %+v is better than the optimum %v", r, s.Objective)
				}
			}
		}
	})
}

func better(m *optimizer.Model, a, b optimizer.Alternative) bool {
	if (a.Breaks == "") != (b.Breaks == "") {
		return a.Breaks == ""
	}
	if m.Objective == optimizer.Cost {
		return a.USD < b.USD
	}
	return a.Hours < b.Hours
}

func TestRunnersReturnsBestK(t *testing.T) {
	m := generate(1, randomDAG, 10, 30, 5)
	s := solve(t, m, optimizer.Options{})
	e, err := optimizer.NewExplainer(m, s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.Alternatives("t00003", 1000)
	if err != nil {
		t.Fatal(err)
	}
	few, err := e.Alternatives("t00003", 3)
	if err != nil || !slices.Equal(few, all[:3]) {
		t.Errorf("got %+v, %v", few, err)
	}
	if none, err := e.Alternatives("t00003", 0); err != nil || len(none) != 0 {
		t.Errorf("got %+v, %v", none, err)
	}
}

func TestExplainerRejectsMissingPlan(t *testing.T) {
	m := generate(1, chain, 3, 3, 2)
	s := solve(t, m, optimizer.Options{})
	if _, err := explain(m, s, "nobody", 3); err == nil {
		t.Error("explained a task that does not exist")
	}
	wrong := []*optimizer.Solution{nil, {}, {Picks: []int{0}}, {Picks: []int{0, 0, 99}}, {Picks: []int{0, 0, -1}}}
	for _, s := range wrong {
		if _, err := explain(m, s, "t00001", 3); !errors.Is(err, optimizer.ErrNoPlan) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// explain returns the runner-ups of one task of a plan.
func explain(m *optimizer.Model, s *optimizer.Solution, task string, k int) ([]optimizer.Alternative, error) {
	e, err := optimizer.NewExplainer(m, s)
	if err != nil {
		return nil, err
	}
	return e.Alternatives(task, k)
}

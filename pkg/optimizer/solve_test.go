package optimizer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// fataler is the common part of testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func solve(t fataler, m *optimizer.Model, o optimizer.Options) *optimizer.Solution {
	t.Helper()
	s, err := optimizer.Solve(context.Background(), m, o)
	if err != nil {
		t.Fatalf("Solve: %v", err)
	}
	return s
}

// checkOptimal compares s with the brute-force result of m.
func checkOptimal(t fataler, m *optimizer.Model, s *optimizer.Solution) {
	t.Helper()
	want, ok := bruteForce(m)
	if !ok {
		if s.Status != optimizer.Infeasible {
			t.Fatalf("got %s %v, want infeasible", s.Status, s.Objective)
		}
		return
	}
	if s.Status != optimizer.Optimal || !same(s.Objective, want) || s.Bound != s.Objective {
		t.Fatalf("got %s %v, bound %v; want %v", s.Status, s.Objective, s.Bound, want)
	}
	checkPlan(t, m, s)
}

// checkPlan verifies that the values of s are those of its plan.
func checkPlan(t fataler, m *optimizer.Model, s *optimizer.Solution) {
	t.Helper()
	usd, hours := evaluate(m, s.Picks)
	if !same(usd, s.USD) || !same(hours, s.Hours) {
		t.Fatalf("the solution has %v USD in %v h, its picks %v USD in %v h", s.USD, s.Hours, usd, hours)
	}
	if !keepsBounds(m, usd, hours) {
		t.Fatalf("a plan of %v USD in %v h exceeds a limit", usd, hours)
	}
	for i, k := range s.Picks {
		if got, want := s.Choice[m.Tasks[i].ID], m.Tasks[i].Candidates[k].ID; got != want {
			t.Fatalf("choice of %s is %q, its pick %q", m.Tasks[i].ID, got, want)
		}
	}
}

func TestCheapestPlanMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		checkOptimal(t, m, solve(t, m, optimizer.Options{}))
	})
}

func TestFastestPlanMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		m.Objective = optimizer.Makespan
		checkOptimal(t, m, solve(t, m, optimizer.Options{}))
	})
}

// Of the fastest plans within the budget, the cheapest must be returned.
func TestMakespanTieIsBrokenByCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		m.Objective = optimizer.Makespan
		s := solve(t, m, optimizer.Options{})
		if s.Status != optimizer.Optimal {
			return
		}
		least := math.Inf(1)
		everyPlan(m, func(_ []int, usd, hours float64) {
			if hours <= s.Hours*(1+1e-9) && keepsBounds(m, usd, hours) {
				least = min(least, usd)
			}
		})
		if s.USD > least && !same(s.USD, least) {
			t.Fatalf("%v hours for %v USD, but %v USD is possible", s.Hours, s.USD, least)
		}
	})
}

func TestBoundedPlansMatchBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		checkOptimal(t, m, solve(t, m, optimizer.Options{}))
	})
}

// boundedModel draws a model with a deadline, a budget or both. Most limits are between the values of the cheapest
// and of the fastest plan.
func boundedModel(t *rapid.T) *optimizer.Model {
	m := smallModel(t)
	cheap := solve(t, m, optimizer.Options{})
	m.Objective = optimizer.Makespan
	fast := solve(t, m, optimizer.Options{})
	between := rapid.Float64Range(-0.1, 1.2)
	deadline := max(0, fast.Hours+between.Draw(t, "deadline")*(cheap.Hours-fast.Hours))
	budget := max(0, cheap.USD+between.Draw(t, "budget")*(fast.USD-cheap.USD))
	m.Objective = rapid.SampledFrom([]optimizer.Objective{optimizer.Cost, optimizer.Makespan}).Draw(t, "objective")
	which := rapid.IntRange(1, 3).Draw(t, "bounds")
	if which&1 != 0 {
		m.DeadlineHours = &deadline
	}
	if which&2 != 0 {
		m.BudgetUSD = &budget
	}
	return m
}

// All lists of a model are shuffled. The answer must not change.
func TestAnswerDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		if rapid.Bool().Draw(t, "bounded") {
			m = boundedModel(t)
		}
		a, b := solve(t, m, optimizer.Options{}), solve(t, shuffled(t, m), optimizer.Options{})
		if a.Status != b.Status || a.Objective != b.Objective || a.USD != b.USD || a.Hours != b.Hours {
			t.Fatalf("got %+v, shuffled %+v", a, b)
		}
		if !reflect.DeepEqual(a.Choice, b.Choice) {
			t.Fatalf("chose %v, shuffled %v", a.Choice, b.Choice)
		}
	})
}

func shuffled(t *rapid.T, m *optimizer.Model) *optimizer.Model {
	c := *m
	n := len(m.Places)
	order := rapid.Permutation(upTo(n)).Draw(t, "places")
	c.Places, c.USDPerGiB, c.HoursPerGiB = nil, nil, nil
	moved := make([]int, n)
	for i, p := range order {
		moved[p] = i
		c.Places = append(c.Places, m.Places[p])
		var usd, hours []float64
		for _, q := range order {
			usd, hours = append(usd, m.USDPerGiB[p][q]), append(hours, m.HoursPerGiB[p][q])
		}
		c.USDPerGiB, c.HoursPerGiB = append(c.USDPerGiB, usd), append(c.HoursPerGiB, hours)
	}
	c.Tasks = rapid.Permutation(m.Tasks).Draw(t, "tasks")
	for i := range c.Tasks {
		cands := slices.Clone(c.Tasks[i].Candidates)
		for k := range cands {
			cands[k].Place = moved[cands[k].Place]
		}
		c.Tasks[i].Candidates = rapid.Permutation(cands).Draw(t, "candidates")
	}
	c.Edges = rapid.Permutation(m.Edges).Draw(t, "edges")
	return &c
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A model is solved twice, with all methods in use. The results must be equal.
func TestSolveIsDeterministic(t *testing.T) {
	for _, s := range []shape{chain, forkJoin, randomDAG, layered} {
		m := generate(1, s, 16, 40, 10)
		cheap, fast := ends(t, m)
		deadline := (cheap.Hours + fast.Hours) / 2
		m.DeadlineHours = &deadline
		a, b := solve(t, m, optimizer.Options{}), solve(t, m, optimizer.Options{})
		if !slices.Equal(a.Picks, b.Picks) || a.Objective != b.Objective {
			t.Errorf("shape %d: %v then %v", s, a.Objective, b.Objective)
		}
	}
}

// The search is stopped at every stage. Its bound must never exceed the optimum.
func TestBoundNeverExceedsOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		want, ok := bruteForce(m)
		work := int64(rapid.IntRange(1, 3000).Draw(t, "work"))
		s, err := optimizer.Solve(context.Background(), m, optimizer.Options{WorkLimit: work})
		switch {
		case errors.Is(err, optimizer.ErrUndecided):
		case err != nil:
			t.Fatalf("Solve: %v", err)
		case s.Status == optimizer.Infeasible:
			if ok {
				t.Fatalf("infeasible, but %v is possible", want)
			}
		default:
			if !ok || s.Bound > want*(1+1e-9) || s.Objective < want*(1-1e-9) {
				t.Fatalf("%s: bound %v and objective %v, optimum %v (%v)", s.Status, s.Bound, s.Objective, want, ok)
			}
			checkPlan(t, m, s)
		}
	})
}

func TestStoppedSearchReturnsPlanAndBound(t *testing.T) {
	m := generate(3, layered, 400, 60, 30)
	full := solve(t, m, optimizer.Options{})
	for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
		m.Objective = objective
		s := solve(t, m, optimizer.Options{WorkLimit: 1})
		checkPlan(t, m, s)
		if s.Bound <= 0 || s.Bound > s.Objective {
			t.Errorf("%s: bound %v, objective %v", objective, s.Bound, s.Objective)
		}
		if objective == optimizer.Cost && (s.Bound > full.Objective || s.Objective < full.Objective) {
			t.Errorf("bound %v and objective %v are not around the optimum %v", s.Bound, s.Objective, full.Objective)
		}
		if s.Status == optimizer.Feasible && !strings.Contains(s.Message, "%") {
			t.Errorf("message %q does not say how far from the optimum the plan may be", s.Message)
		}
	}
}

func TestWorkLimitIsDeterministic(t *testing.T) {
	m := generate(5, layered, 200, 60, 30)
	for _, work := range []int64{100_000, 1_000_000} {
		a, b := solve(t, m, optimizer.Options{WorkLimit: work}), solve(t, m, optimizer.Options{WorkLimit: work})
		if !slices.Equal(a.Picks, b.Picks) || a.Bound != b.Bound {
			t.Errorf("work %d: %v ≥ %v, then %v ≥ %v", work, a.Objective, a.Bound, b.Objective, b.Bound)
		}
	}
}

func TestTimeLimitUsesGivenClock(t *testing.T) {
	m := generate(3, layered, 400, 60, 30)
	var clock time.Time
	looks := 0
	s := solve(t, m, optimizer.Options{TimeLimit: time.Second, Now: func() time.Time {
		looks++
		clock = clock.Add(300 * time.Millisecond)
		return clock
	}})
	if s.Millis != float64(300*(looks-1)) {
		t.Errorf("took %v ms by a clock that was read %d times", s.Millis, looks)
	}
	if s.Status != optimizer.Feasible {
		t.Errorf("status %s, but time ran out", s.Status)
	}
	checkPlan(t, m, s)
}

func TestSolveReturnsContextError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("the user gave up")
	cancel(why)
	for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
		m := generate(1, randomDAG, 30, 60, 30)
		m.Objective = objective
		if s, err := optimizer.Solve(ctx, m, optimizer.Options{}); s != nil || !errors.Is(err, why) {
			t.Errorf("%s: got %v, %v", objective, s, err)
		}
	}
}

func TestHintNeverWorsensPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		hint := make([]int, len(m.Tasks))
		for i := range hint {
			hint[i] = rapid.IntRange(-1, len(m.Tasks[i].Candidates)).Draw(t, "hint")
		}
		checkOptimal(t, m, solve(t, m, optimizer.Options{Hint: hint}))
	})
}

func TestGapStopsTheSearchEarly(t *testing.T) {
	m := generate(2, layered, 300, 60, 30)
	s := solve(t, m, optimizer.Options{Gap: 0.05})
	if s.Bound < s.Objective*0.95 {
		t.Errorf("objective %v, bound %v", s.Objective, s.Bound)
	}
	checkPlan(t, m, s)
}

func TestInfeasibleReasons(t *testing.T) {
	float := func(x float64) *float64 { return &x }
	two := func() *optimizer.Model {
		return &optimizer.Model{
			Objective: optimizer.Cost, Places: []string{"here"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}},
			Tasks: []optimizer.Task{{ID: "a", Candidates: []optimizer.Candidate{{ID: "slow", USD: 1, Hours: 4}, {ID: "fast", USD: 5, Hours: 1}}}},
			Edges: []optimizer.Edge{},
		}
	}
	tests := []struct {
		name   string
		change func(*optimizer.Model)
		want   optimizer.Reason
		says   string
	}{
		{"no candidates", func(m *optimizer.Model) { m.Tasks[0].Candidates = nil },
			optimizer.Reason{Constraint: optimizer.NoCandidates, Tasks: []string{"a"}}, "no candidate for a"},
		{"deadline", func(m *optimizer.Model) { m.DeadlineHours = float(0.5) },
			optimizer.Reason{Constraint: optimizer.Deadline, LeastHours: 1, Exact: true}, "extend it by 30m"},
		{"budget", func(m *optimizer.Model) { m.BudgetUSD = float(0.25) },
			optimizer.Reason{Constraint: optimizer.Budget, LeastUSD: 1, Exact: true}, "raise it by 0.75 USD"},
		{"both", func(m *optimizer.Model) { m.DeadlineHours, m.BudgetUSD = float(2), float(2) },
			optimizer.Reason{Constraint: optimizer.DeadlineAndBudget, LeastHours: 4, LeastUSD: 5, Exact: true}, "within the budget the fastest plan takes 4h,"},
	}
	for _, tt := range tests {
		for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
			t.Run(fmt.Sprint(tt.name, "/", objective), func(t *testing.T) {
				m := two()
				m.Objective = objective
				tt.change(m)
				s := solve(t, m, optimizer.Options{})
				if s.Status != optimizer.Infeasible || s.Picks != nil {
					t.Fatalf("got %+v", s)
				}
				if !reflect.DeepEqual(*s.Reason, tt.want) {
					t.Errorf("reason %+v, want %+v", *s.Reason, tt.want)
				}
				if !strings.Contains(s.Message, tt.says) {
					t.Errorf("message %q does not contain %q", s.Message, tt.says)
				}
			})
		}
	}
}

// An infeasible model names the limit that it would need. With that limit, it must be feasible.
func TestRelaxedModelIsFeasible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		s := solve(t, m, optimizer.Options{})
		if s.Status != optimizer.Infeasible {
			return
		}
		r := *s.Reason
		if !r.Exact {
			t.Fatalf("not exact: %+v", r)
		}
		if r.LeastHours > 0 {
			relaxed := *m
			relaxed.DeadlineHours = &r.LeastHours
			if r.Constraint == optimizer.Deadline {
				relaxed.BudgetUSD = nil
			}
			if got := solve(t, &relaxed, optimizer.Options{}); got.Status != optimizer.Optimal {
				t.Fatalf("with a deadline of %v h it is infeasible: %s", r.LeastHours, got.Message)
			}
		}
		if r.LeastUSD > 0 {
			relaxed := *m
			relaxed.BudgetUSD = &r.LeastUSD
			if r.Constraint == optimizer.Budget {
				relaxed.DeadlineHours = nil
			}
			if got := solve(t, &relaxed, optimizer.Options{}); got.Status != optimizer.Optimal {
				t.Fatalf("with a budget of %v USD it is infeasible: %s", r.LeastUSD, got.Message)
			}
		}
	})
}

func TestEmptyModelHasAnEmptyPlan(t *testing.T) {
	for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
		zero := 0.0
		m := &optimizer.Model{Objective: objective, DeadlineHours: &zero, BudgetUSD: &zero}
		s := solve(t, m, optimizer.Options{})
		if s.Status != optimizer.Optimal || s.Objective != 0 {
			t.Errorf("%s: %+v", objective, s)
		}
	}
}

func TestSolutionJSON(t *testing.T) {
	tests := []struct {
		give optimizer.Solution
		want string
	}{
		{
			optimizer.Solution{Status: optimizer.Optimal, Objective: 1.93, Bound: 1.93, USD: 1.93, Hours: 2.1, Choice: map[string]string{"train": "aws/us-east-1"}, Picks: []int{0}, Millis: 0.4},
			`{"status":"optimal","objective":1.93,"bound":1.93,"usd":1.93,"hours":2.1,"choice":{"train":"aws/us-east-1"},"millis":0.4}`,
		},
		{
			optimizer.Solution{Status: optimizer.Infeasible, Message: "no", Reason: &optimizer.Reason{Constraint: optimizer.Budget, LeastUSD: 3, Exact: true}},
			`{"status":"infeasible","millis":0,"message":"no","reason":{"constraint":"budget","leastUSD":3,"exact":true}}`,
		},
		{
			optimizer.Solution{Status: optimizer.Optimal},
			`{"status":"optimal","objective":0,"bound":0,"usd":0,"hours":0,"choice":{},"millis":0}`,
		},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.give)
		if err != nil || string(got) != tt.want {
			t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
		}
		var back optimizer.Solution
		if err := json.Unmarshal(got, &back); err != nil {
			t.Error(err)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != tt.want {
			t.Errorf("read back as %s, %v", again, err)
		}
	}
}

// Extreme models must be solved: without edges, with a single place, with transfers far larger than the tasks, and
// with nothing but transfers.
func TestExtremeModels(t *testing.T) {
	tests := []struct {
		name string
		m    *optimizer.Model
	}{
		{"no edges", generate(1, chain, 50, 40, 30)},
		{"one place", generate(1, randomDAG, 50, 40, 1)},
		{"huge transfers", generate(1, randomDAG, 20, 20, 5)},
		{"free", generate(1, randomDAG, 20, 20, 5)},
	}
	tests[0].m.Edges = nil
	for i := range tests[2].m.Edges {
		tests[2].m.Edges[i].GiB *= 1e9
	}
	for i := range tests[3].m.Tasks {
		for k := range tests[3].m.Tasks[i].Candidates {
			c := &tests[3].m.Tasks[i].Candidates[k]
			c.USD, c.Hours = 0, 0
		}
	}
	for _, tt := range tests {
		for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
			tt.m.Objective = objective
			s := solve(t, tt.m, optimizer.Options{WorkLimit: 50_000_000})
			checkPlan(t, tt.m, s)
			if math.IsNaN(s.Bound) || s.Bound > s.Objective || s.Status != optimizer.Optimal {
				t.Errorf("%s, %s: %s %v, bound %v", tt.name, objective, s.Status, s.Objective, s.Bound)
			}
		}
	}
}

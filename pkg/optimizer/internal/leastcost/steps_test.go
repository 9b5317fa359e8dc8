package leastcost_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/leastcost"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

// knotted draws a hard problem: most tasks send data to most others, and transfers within a place are expensive. So
// no task can be placed without many others.
func knotted(seed int) *problem.Instance {
	return tiny.Draw(tiny.Rand(seed), tiny.Shape{Tasks: 7, Places: 3, PerPlace: 1, Edges: 0.8, Apart: 5})
}

// The search must find the optimum in few steps. If it excludes too little or repeats work, it takes more steps. If
// it does not count its steps, it exceeds its work limit.
func TestSearchTakesFewSteps(t *testing.T) {
	steps := make([]int64, len(efforts()))
	for seed := range 30 {
		inst := knotted(seed)
		least := tiny.Cheapest(inst, search.Inf)
		for k, th := range efforts() {
			m := meter(search.Limits{})
			p, lower, proven := leastcost.NewSolver(inst, th, m).Solve(nil)
			if usd, _ := tiny.Evaluate(inst, p); usd != least || !proven || math.Abs(lower-least) > 1e-6 {
				t.Fatalf("seed %d, effort %d: a plan of %v with a bound of %v (%v), the cheapest costs %v",
					seed, k, usd, lower, proven, least)
			}
			steps[k] += m.Work
		}
	}
	for k, want := range []int64{110_245, 22_376, 97_651, 75_847} {
		if !tiny.StepsNear(steps[k], want, 5e-4) {
			t.Errorf("effort %d takes %d steps, not about %d", k, steps[k], want)
		}
	}
}

// The search must end as soon as its bound proves the requested gap.
func TestGapEndsSearch(t *testing.T) {
	sooner := 0
	for seed := range 30 {
		inst := knotted(seed)
		least := tiny.Cheapest(inst, search.Inf)
		for k, th := range efforts() {
			whole, part := meter(search.Limits{}), meter(search.Limits{Gap: 0.2})
			leastcost.NewSolver(inst, th, whole).Solve(nil)
			p, lower, _ := leastcost.NewSolver(inst, th, part).Solve(nil)
			usd, _ := tiny.Evaluate(inst, p)
			if lower > least+1e-9 || usd-lower > 0.2*usd+1e-9 || part.Work > whole.Work {
				t.Fatalf("seed %d, effort %d: a plan of %v with a bound of %v, the cheapest costs %v",
					seed, k, usd, lower, least)
			}
			if part.Work < whole.Work {
				sooner++
			}
		}
	}
	if sooner < 30 {
		t.Errorf("only %d searches end sooner", sooner)
	}
}

// With many places, bounds must exclude most places first, so that elimination takes few steps.
func TestManyPlacesTakeFewSteps(t *testing.T) {
	m := meter(search.Limits{})
	for seed := range 4 {
		inst := tiny.Draw(tiny.Rand(seed), tiny.Shape{Tasks: 5, Places: 24, PerPlace: 1, Edges: 0.6})
		leastcost.NewSolver(inst, search.DefaultThresholds(), m).Solve(nil)
	}
	if m.Work > 96_000 {
		t.Errorf("it takes %d steps", m.Work)
	}
}

// The cost of an option alone exceeds that of the best plan. The option must be skipped.
func TestExpensiveOptionIsSkipped(t *testing.T) {
	var steps [2]int64
	for k, usd := range []float64{15, 1e6} {
		opts := []problem.Option{{Place: 0, USD: 10}, {Place: 1, USD: usd}, {Place: 0, USD: 10}, {Place: 1, USD: usd}}
		// At a third place, which has no tasks, data from the first place would be expensive.
		inst := pair(opts, []float64{1, 1, 1000, 1, 1, 0, 1000, 0, 1})
		m := meter(search.Limits{})
		p, lower, proven := leastcost.NewSolver(inst, search.DefaultThresholds(), m).Solve(nil)
		if !proven || lower != 21 {
			t.Errorf("plan %v has a bound of %v", p, lower)
		}
		steps[k] = m.Work
	}
	if steps[0] != steps[1] {
		t.Errorf("%d steps with an option that is too expensive, %d with one that is far too expensive", steps[0], steps[1])
	}
}

// A move that gains only a rounding error must not be made, and its neighbours must not be examined again.
func TestImproveIgnoresRoundingErrors(t *testing.T) {
	dear := math.Nextafter(300000.3, search.Inf)
	opts := []problem.Option{
		{Place: 0, USD: 300000.3}, {Place: 1, USD: dear}, {Place: 0, USD: 300000.3}, {Place: 1, USD: dear},
	}
	inst := pair(opts, make([]float64, 9))
	var steps [2]int64
	for k, known := range []problem.Plan{{0, 0}, {1, 1}} {
		m := meter(search.Limits{})
		leastcost.NewSolver(inst, search.DefaultThresholds(), m).Solve([]problem.Plan{known})
		steps[k] = m.Work
	}
	if steps[0] != steps[1] {
		t.Errorf("%d steps from the cheapest plan, %d from an equally cheap one", steps[0], steps[1])
	}
}

// pair returns a problem of two tasks with two options each and three places. The first task sends a GiB to the
// second.
func pair(opts []problem.Option, usd []float64) *problem.Instance {
	edges := []problem.Link{{From: 0, To: 1, SumGiB: 1, MaxGiB: 1}}
	inst := &problem.Instance{
		NPlace: 3, USD: usd, USDT: usd, Opts: opts, First: []int32{0, 2, 4},
		Links: problem.Links{Order: []int32{0, 1}, Topo: []int32{0, 1}, Edges: edges},
		In:    problem.Adjacent(2, edges, func(e *problem.Link) int32 { return e.To }),
		Out:   problem.Adjacent(2, edges, func(e *problem.Link) int32 { return e.From }),
	}
	inst.GroupByPlace()
	return inst
}

// If all costs are multiplied by a factor, the plan and the number of steps must not change.
func TestScaledCostsGiveSamePlan(t *testing.T) {
	for seed := range 30 {
		inst, small := knotted(seed), knotted(seed)
		for _, prices := range [][]float64{small.USD, small.USDT} {
			for i := range prices {
				prices[i] /= 1024
			}
		}
		for o := range small.Opts {
			small.Opts[o].USD /= 1024
		}
		for k, th := range efforts() {
			a, b := meter(search.Limits{}), meter(search.Limits{})
			p, lower, _ := leastcost.NewSolver(inst, th, a).Solve(nil)
			q, less, _ := leastcost.NewSolver(small, th, b).Solve(nil)
			if !slices.Equal(p, q) || less != lower/1024 || a.Work != b.Work {
				t.Fatalf("seed %d, effort %d: %v of %v after %d steps, in thousandths %v of %v after %d",
					seed, k, p, lower, a.Work, q, less, b.Work)
			}
		}
	}
}

// The smallest component must be searched first, whatever its position in the model. It probably ends soonest, so a
// stopped search proves as much as possible.
func TestSmallComponentIsSearchedFirst(t *testing.T) {
	for seed := range 10 {
		sizes := []int{7, 5}
		for work := int64(2000); work < 8000; work += 500 {
			var proven [2]float64
			for k := range proven {
				m := meter(search.Limits{Work: work})
				_, proven[k], _ = leastcost.NewSolver(twoParts(seed, sizes), efforts()[3], m).Solve(nil)
				slices.Reverse(sizes)
			}
			if math.Abs(proven[0]-proven[1]) > 1e-9 {
				t.Fatalf("seed %d: after %d steps %v is proven or %v", seed, work, proven[0], proven[1])
			}
		}
	}
}

// twoParts returns a problem of unconnected components, which have the given numbers of tasks.
func twoParts(seed int, sizes []int) *problem.Instance {
	var both *problem.Instance
	for _, n := range sizes {
		one := tiny.Draw(tiny.Rand(seed), tiny.Shape{Tasks: n, Places: 3, PerPlace: 1, Edges: 0.8, Apart: 5})
		if both == nil {
			both = one
			continue
		}
		shift, first := int32(both.NTask()), int32(len(both.Opts))
		for i, t := range one.Topo {
			both.Topo = append(both.Topo, t+shift)
			both.Order = append(both.Order, int32(i)+shift)
			both.First = append(both.First, one.First[i+1]+first)
		}
		for _, e := range one.Edges {
			e.From, e.To = e.From+shift, e.To+shift
			both.Edges = append(both.Edges, e)
		}
		both.Opts = append(both.Opts, one.Opts...)
	}
	both.In = problem.Adjacent(both.NTask(), both.Edges, func(e *problem.Link) int32 { return e.To })
	both.Out = problem.Adjacent(both.NTask(), both.Edges, func(e *problem.Link) int32 { return e.From })
	// Both orders have the same prices.
	both.USD, both.USDT = []float64{5, 1, 2, 0, 5, 3, 4, 1, 5}, []float64{5, 0, 4, 1, 5, 1, 2, 3, 5}
	both.GroupByPlace()
	return both
}

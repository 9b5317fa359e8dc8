package labels_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/labels"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/pricing"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// solved is the result for a problem.
type solved struct {
	ok   bool
	kept problem.Plan
	work int64
}

// solve searches for the best plan below both cuts. Its prices make the lagrangian an arbitrary bound.
func solve(inst *problem.Instance, lambda float64, byTime bool, timeCut, costCut float64, th search.Thresholds,
	narrow bool, limits search.Limits) solved {
	m := search.Start(context.Background(), limits)
	b := windows.NewBox(inst)
	var s network.Scratch
	cut := search.Inf
	if narrow {
		cut = timeCut
	}
	if !b.Narrow(cut, &s, m) {
		return solved{ok: true}
	}
	dual := pricing.NewLagrangian(inst, search.DefaultThresholds())
	cheap, fast := ends(inst)
	dual.Enter(b)
	// the spreader's prices, which are never zero
	pricing.NewPricer(inst, cheap, fast, search.Thresholds{}).Inform(dual)
	dual.Lambda = lambda
	from := make(problem.Plan, inst.NTask()) // all options in it will be replaced
	for t := range from {
		from[t] = int32(len(inst.Options(int32(t))) - 1)
	}
	var out solved
	out.ok = labels.Solve(&labels.Problem{
		Inst: inst, Box: b, Dual: dual, Meter: m, Thresholds: th, TimeCut: timeCut, CostCut: costCut, ByTime: byTime,
		From: from,
		Keep: func(p problem.Plan) bool {
			usd, hours := tiny.Evaluate(inst, p)
			if usd >= costCut || hours >= timeCut {
				return false
			}
			out.kept = slices.Clone(p)
			return true
		},
	})
	out.work = m.Work
	return out
}

// ends returns the cheapest and the fastest plan.
func ends(inst *problem.Instance) (cheap, fast problem.Plan) {
	least, soonest := search.Inf, search.Inf
	tiny.Each(inst, nil, func(p problem.Plan, usd, hours float64) {
		if usd < least {
			least, cheap = usd, slices.Clone(p)
		}
		if hours < soonest {
			soonest, fast = hours, slices.Clone(p)
		}
	})
	return cheap, fast
}

// nested draws a problem with a series-parallel graph: fork-joins in a chain or in parallel.
func nested(seed int) *problem.Instance {
	r := tiny.Rand(seed)
	inst := tiny.Draw(r, tiny.Shape{
		Tasks: 6, Places: 1 + r.IntN(3), PerPlace: 1 + r.IntN(2), Rare: 0.5 * r.Float64(), Apart: float64(r.IntN(3)),
	})
	shapes := [][][2]int32{
		{}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, {{0, 1}, {0, 2}, {0, 3}, {1, 5}, {2, 5}, {3, 5}, {5, 4}},
		{{3, 1}, {3, 2}, {1, 0}, {2, 0}, {1, 4}, {4, 0}}, {{5, 0}, {5, 1}, {1, 2}, {1, 3}, {3, 4}},
		{{0, 5}, {1, 5}, {2, 4}, {3, 4}, {5, 4}}, {{0, 1}, {0, 2}, {1, 2}, {2, 3}, {2, 4}, {3, 4}},
	}
	var edges []problem.Link
	for _, e := range shapes[r.IntN(len(shapes))] {
		gib := float64(r.IntN(6))
		edges = append(edges, problem.Link{From: e[0], To: e[1], SumGiB: gib, MaxGiB: gib})
	}
	inst.Edges = problem.MergeParallel(edges)
	inst.Topo = problem.Topological(6, inst.Edges)
	inst.In = problem.Adjacent(6, inst.Edges, func(e *problem.Link) int32 { return e.To })
	inst.Out = problem.Adjacent(6, inst.Edges, func(e *problem.Link) int32 { return e.From })
	return inst
}

// For any prices and cuts, the plan must be that of brute force. If no plan is below the cuts, there must be none.
// Few steps are allowed, because useless labels must be dropped.
func TestSolveMatchesBruteForce(t *testing.T) {
	var work int64
	th := search.DefaultThresholds()
	for seed := range 400 {
		inst := nested(seed)
		r := tiny.Rand(seed)
		var usd, hours []float64
		tiny.Each(inst, nil, func(_ problem.Plan, x, h float64) { usd, hours = append(usd, x), append(hours, h) })
		i := r.IntN(len(usd))
		costCut, timeCut := usd[i]+float64(r.IntN(3))-0.5, hours[r.IntN(len(hours))]+0.5
		for _, byTime := range []bool{false, true} {
			least := search.Inf
			for k := range usd {
				if usd[k] < costCut && hours[k] < timeCut {
					if byTime {
						least = min(least, hours[k])
					} else {
						least = min(least, usd[k])
					}
				}
			}
			for _, lambda := range []float64{0, 0.3, 2} {
				s := solve(inst, lambda, byTime, timeCut, costCut, th, seed%3 > 0, search.Limits{})
				work += s.work
				got := search.Inf
				if s.kept != nil {
					x, h := tiny.Evaluate(inst, s.kept)
					if got = x; byTime {
						got = h
					}
				}
				if !s.ok || got != least {
					t.Fatalf("seed %d, %v USD an hour: the best below %v USD and %v h is %v, not %v (%v)",
						seed, lambda, costCut, timeCut, least, got, s.ok)
				}
			}
		}
	}
	if !tiny.StepsNear(int64(work), 1_664_000, 6e-4) {
		t.Errorf("it takes %d steps", work)
	}
}

// Graphs that are not series-parallel must be rejected: four tasks with a cross connection, and larger graphs that
// contain it.
func TestReduceRejectsOtherGraphs(t *testing.T) {
	for _, list := range [][][2]int32{
		{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {1, 4}, {4, 5}}, {{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 4}, {3, 5}, {4, 5}},
	} {
		inst := nested(1)
		inst.Edges = nil
		for _, e := range list {
			inst.Edges = append(inst.Edges, problem.Link{From: e[0], To: e[1], SumGiB: 1, MaxGiB: 1})
		}
		inst.Topo = problem.Topological(6, inst.Edges)
		inst.In = problem.Adjacent(6, inst.Edges, func(e *problem.Link) int32 { return e.To })
		inst.Out = problem.Adjacent(6, inst.Edges, func(e *problem.Link) int32 { return e.From })
		s := solve(inst, 1, false, 1e9, 1e9, search.DefaultThresholds(), false, search.Limits{})
		if s.ok || s.kept != nil {
			t.Errorf("%v is not a series-parallel graph", list)
		}
	}
}

// There are limits of steps, of labels and of all work. Within each limit, the best plan so far is kept.
func TestSolveStopsAtLimits(t *testing.T) {
	for seed := range 40 {
		inst := nested(seed)
		whole := solve(inst, 0.3, false, 1e9, 1e9, search.DefaultThresholds(), false, search.Limits{})
		for _, change := range []func(th *search.Thresholds, l *search.Limits, n int){
			func(th *search.Thresholds, _ *search.Limits, n int) { th.Labels = n },
			func(th *search.Thresholds, _ *search.Limits, n int) { th.LabelWork = n },
			func(_ *search.Thresholds, l *search.Limits, n int) { l.Work = int64(n) },
		} {
			done := 0
			for n := 1; n < 20000; n = n*3/2 + 1 {
				th, l := search.DefaultThresholds(), search.Limits{}
				change(&th, &l, n)
				s := solve(inst, 0.3, false, 1e9, 1e9, th, false, l)
				if !s.ok {
					if s.kept != nil || done > 0 {
						t.Fatalf("seed %d: plan %v of a search that has ended early", seed, s.kept)
					}
					continue
				}
				if done++; !slices.Equal(s.kept, whole.kept) || s.work != whole.work {
					t.Fatalf("seed %d: plan %v, not %v", seed, s.kept, whole.kept)
				}
			}
		}
	}
}

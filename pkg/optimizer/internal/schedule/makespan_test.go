package schedule_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/schedule"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func makespanMeter(l search.Limits) *search.Meter { return search.Start(context.Background(), l) }

// makespanDrawn returns a problem and its minimum makespan. Every second seed gives a hard problem: most tasks send
// data to most others and transfers within a place are expensive, so no task can be placed without many others.
func makespanDrawn(seed int) (inst *problem.Instance, least float64) {
	r := tiny.Rand(seed)
	shape := tiny.Shape{Tasks: 7, Places: 3, PerPlace: 1, Edges: 0.8, Apart: 5}
	if seed%2 == 0 {
		shape = tiny.Shape{
			Tasks: 1 + r.IntN(6), Places: 1 + r.IntN(4), PerPlace: 1 + r.IntN(2), Edges: min(0.95, 1.5*r.Float64()),
			Rare: 0.6 * r.Float64(),
		}
	}
	inst = tiny.Draw(r, shape)
	return inst, tiny.Fastest(inst, search.Inf)
}

// The search must find the optimum, which is computed by brute force, in a known number of steps. A search that
// excludes too little or repeats work would take more steps, and one that does not count its steps would exceed its
// work limit.
func TestSolveMatchesBruteForce(t *testing.T) {
	m := makespanMeter(search.Limits{})
	for seed := range 400 {
		inst, least := makespanDrawn(seed)
		p, lower, proven := schedule.Solve(inst, nil, 0, search.DefaultThresholds(), m)
		if _, hours := tiny.Evaluate(inst, p); hours != least || !proven || lower > least || lower < least-1e-6 {
			t.Fatalf("seed %d: a plan of %v with a bound of %v (%v), the fastest takes %v",
				seed, hours, lower, proven, least)
		}
		// A plan that is only as fast as enough does not end the search, so the proof must be completed.
		_, _, proven = schedule.Solve(inst, nil, least, search.DefaultThresholds(), makespanMeter(search.Limits{}))
		if !proven {
			t.Fatalf("seed %d: the search ends before %v is proven", seed, least)
		}
	}
	if !tiny.StepsNear(m.Work, 269_650, 6e-4) {
		t.Errorf("it takes %d steps", m.Work)
	}
}

// The search is stopped after any amount of work. Its bound must be valid.
func TestStoppedSearchHasValidBound(t *testing.T) {
	for seed := range 60 {
		inst, least := makespanDrawn(seed)
		for work := int64(1); work < 10000; work = work*3/2 + 1 {
			m := makespanMeter(search.Limits{Work: work})
			p, lower, proven := schedule.Solve(inst, nil, 0, search.DefaultThresholds(), m)
			_, hours := tiny.Evaluate(inst, p)
			if lower > least || proven && hours > least || !proven && lower > hours {
				t.Fatalf("seed %d, %d steps: a plan of %v with a bound of %v (%v), the fastest takes %v",
					seed, work, hours, lower, proven, least)
			}
		}
	}
}

// A search that ends early, because a plan is fast enough, must still prove a bound.
func TestEnoughEndsSearch(t *testing.T) {
	sooner := 0
	for seed := range 100 {
		inst, least := makespanDrawn(seed)
		whole, part := makespanMeter(search.Limits{}), makespanMeter(search.Limits{})
		schedule.Solve(inst, nil, 0, search.DefaultThresholds(), whole)
		p, lower, proven := schedule.Solve(inst, nil, 1.3*least+1, search.DefaultThresholds(), part)
		_, hours := tiny.Evaluate(inst, p)
		if hours >= 1.3*least+1 || lower > least || proven && hours > least || part.Work > whole.Work {
			t.Fatalf("seed %d: a plan of %v with a bound of %v (%v), %v is enough",
				seed, hours, lower, proven, 1.3*least+1)
		}
		if part.Work < whole.Work {
			sooner++
		}
	}
	if sooner == 0 {
		t.Error("no search ends sooner")
	}
}

// A known plan is optimal. It must be returned, and not be modified.
func TestKnownPlanWinsTies(t *testing.T) {
	for seed := range 60 {
		inst, least := makespanDrawn(seed)
		done := false
		tiny.Each(inst, nil, func(p problem.Plan, _, hours float64) {
			if done || hours != least {
				return
			}
			known := slices.Clone(p)
			got, _, _ := schedule.Solve(inst, []problem.Plan{p}, 0, search.DefaultThresholds(),
				makespanMeter(search.Limits{}))
			done = true
			if !slices.Equal(got, known) || !slices.Equal(p, known) {
				t.Fatalf("seed %d: of plans of %v, %v was found instead of %v", seed, least, got, known)
			}
		})
	}
}

// Without memory for windows, the bound must be at least the makespan with the minimum time of each task and the
// fastest transfers.
func TestSolveWithLittleMemory(t *testing.T) {
	th, open := search.DefaultThresholds(), 0
	for seed := range 100 {
		inst, least := makespanDrawn(seed)
		th.WindowEntries = inst.NTask() * inst.NPlace
		if _, _, proven := schedule.Solve(inst, nil, 0, th, makespanMeter(search.Limits{})); !proven {
			t.Fatalf("seed %d: there is memory, but no proof", seed)
		}
		th.WindowEntries--
		p, lower, proven := schedule.Solve(inst, nil, 0, th, makespanMeter(search.Limits{}))
		_, hours := tiny.Evaluate(inst, p)
		if lower > least || lower > hours || proven && hours > least || lower == hours && !proven {
			t.Fatalf("seed %d: a plan of %v with a bound of %v (%v), the fastest takes %v",
				seed, hours, lower, proven, least)
		}
		if !proven {
			open++
		}
		quick := *inst
		quick.Hrs = slices.Repeat([]float64{slices.Min(inst.Hrs)}, len(inst.Hrs))
		if sure := tiny.Fastest(&quick, search.Inf); lower < min(hours, sure) {
			t.Fatalf("seed %d: a bound of %v, but with the fastest transfers tasks take %v", seed, lower, sure)
		}
	}
	if open == 0 {
		t.Error("everything is proven without memory")
	}
	inst, _ := makespanDrawn(1) // all its times will be set to zero
	clear(inst.Hrs)
	for o := range inst.Opts {
		inst.Opts[o].Hours = 0
	}
	if _, lower, proven := schedule.Solve(inst, nil, 0, th, makespanMeter(search.Limits{})); lower != 0 || !proven {
		t.Errorf("a makespan of zero is not proven: %v (%v)", lower, proven)
	}
}

package optimizer

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/bounded"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Variants returns solvers by name. Their thresholds force each method to do work that another method usually does
// first. So tests can reach all methods with models that are small enough for brute force.
func Variants() map[string]func(context.Context, *Model, Options) (*Solution, error) {
	variants := map[string]func(*search.Thresholds){
		"no bucket elimination": func(th *search.Thresholds) {
			th.Effort.Root.Buckets, th.Effort.Again.Buckets, th.Effort.Plunge.Buckets, th.Effort.Branch.Buckets = 0, 0, 0, 0
		},
		"nothing but branching": func(th *search.Thresholds) {
			th.Effort = search.Efforts{}
		},
		"bucket elimination at once": func(th *search.Thresholds) {
			th.Effort.Root = search.Effort{Buckets: 1e9}
		},
		"no label setting": func(th *search.Thresholds) { th.Labels = 0 },
		"spreader": func(th *search.Thresholds) {
			th.ManyTasks, th.Labels = 0, 0
		},
		"dense lagrangian": func(th *search.Thresholds) {
			th.TableEntries, th.Labels = 0, 0
		},
		"rounded times at once": func(th *search.Thresholds) {
			th.RoundAfter, th.Labels = 0, 0
		},
		"rounded times, then some branches": func(th *search.Thresholds) {
			th.RoundAfter, th.Labels, th.ManyTasks = 100, 0, 0
		},
		"dense spreader with labels": func(th *search.Thresholds) {
			th.TableEntries, th.ManyTasks = 0, 0
		},
	}
	out := make(map[string]func(context.Context, *Model, Options) (*Solution, error))
	for name, change := range variants {
		th := search.DefaultThresholds()
		change(&th)
		out[name] = func(ctx context.Context, m *Model, o Options) (*Solution, error) { return solve(ctx, m, o, th) }
	}
	return out
}

// SolveCramped solves without memory for networks or windows.
func SolveCramped(ctx context.Context, m *Model, o Options) (*Solution, error) {
	th := search.DefaultThresholds()
	th.NetworkEntries, th.WindowEntries = 0, 0
	return solve(ctx, m, o, th)
}

// RoundedBounds solves m with rounded times at several precisions. It returns the lower bounds on the cost within the
// deadline, and for each the cost of the cheapest plan with those times. It returns none if even the fastest plan is
// late.
func RoundedBounds(ctx context.Context, m *Model) (bounds, costs []float64, err error) {
	inst, err := compile(m, foldPareto)
	if err != nil {
		return nil, nil, err
	}
	s := &solver{inst: inst, meter: newMeter(ctx, Options{}), thresholds: search.DefaultThresholds()}
	fast := s.fastest(0)
	if s.exceedsDeadline(fast.lower) {
		return nil, nil, nil
	}
	b := &bounded.Search{Inst: &inst.Instance, Meter: s.meter, Thresholds: s.thresholds, Limit: *m.DeadlineHours}
	for steps := 1; steps <= bounded.MaxSteps; steps++ {
		r := bounded.NewRounding(b, b.TimeCut(), steps, fast.plan)
		if r == nil {
			continue
		}
		bounds = append(bounds, r.Lower)
		r.Run()
		costs = append(costs, r.Lower)
	}
	return bounds, costs, nil
}

// Probe searches, with limited work, for plans within m's budget that take less than cut hours. It returns the proven
// lower bound of their hours and the hours of the best plan.
func Probe(ctx context.Context, m *Model, cut float64, work int64) (lower, hours float64, err error) {
	inst, err := compile(m, foldPareto)
	if err != nil {
		return 0, 0, err
	}
	s := &solver{inst: inst, meter: newMeter(ctx, Options{}), thresholds: search.DefaultThresholds()}
	s.thresholds.Labels, s.thresholds.RoundAfter = 0, 0
	cheap, fast := s.cheapest(s.meter), s.fastest(0)
	if s.exceedsBudget(cheap.lower) {
		return search.Inf, search.Inf, nil
	}
	b := &bounded.Search{
		Inst: &inst.Instance, Meter: s.meter, Thresholds: s.thresholds, ByTime: true, Limit: *m.BudgetUSD, Floor: cheap.lower,
		Cheap: cheap.plan, Fast: fast.plan, Best: cheap.plan, Upper: inst.Makespan(cheap.plan),
		Probes: bounded.Prober{Effort: work, Open: search.Inf},
	}
	if cut > b.Upper {
		return 0, b.Upper, nil
	}
	b.ProbeAt(cut)
	return b.Lower, inst.Makespan(b.Best), nil
}

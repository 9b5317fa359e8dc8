package optimizer

import "context"

// Variants forces each method to do what another usually does before it, so
// that tests reach all of them with models small enough for brute force.
func Variants() map[string]func(context.Context, *Model, Options) (*Solution, error) {
	variants := map[string]func(*thresholds){
		"no bucket elimination": func(th *thresholds) {
			th.effort.root.buckets, th.effort.again.buckets, th.effort.plunge.buckets, th.effort.branch.buckets = 0, 0, 0, 0
		},
		"nothing but branching": func(th *thresholds) {
			th.effort = efforts{}
		},
		"bucket elimination at once": func(th *thresholds) {
			th.effort.root = effort{buckets: 1e9}
		},
		"no label setting": func(th *thresholds) { th.labels = 0 },
		"spreader": func(th *thresholds) {
			th.manyTasks, th.labels = 0, 0
		},
		"dense lagrangian": func(th *thresholds) {
			th.tableEntries, th.labels = 0, 0
		},
		"rounded times at once": func(th *thresholds) {
			th.roundAfter, th.labels = 0, 0
		},
		"rounded times, then some branches": func(th *thresholds) {
			th.roundAfter, th.labels, th.manyTasks = 100, 0, 0
		},
		"dense spreader with labels": func(th *thresholds) {
			th.tableEntries, th.manyTasks = 0, 0
		},
	}
	out := make(map[string]func(context.Context, *Model, Options) (*Solution, error))
	for name, change := range variants {
		th := defaultThresholds()
		change(&th)
		out[name] = func(ctx context.Context, m *Model, o Options) (*Solution, error) { return solve(ctx, m, o, th) }
	}
	return out
}

// SolveCramped solves with no memory for networks or windows.
func SolveCramped(ctx context.Context, m *Model, o Options) (*Solution, error) {
	th := defaultThresholds()
	th.networkEntries, th.windowEntries = 0, 0
	return solve(ctx, m, o, th)
}

// RoundedBounds are the bounds on the cost within m's deadline that rounded times
// give, and for each the cheapest plan's cost under them; none where even the
// fastest plan is late.
func RoundedBounds(ctx context.Context, m *Model) (bounds, costs []float64, err error) {
	inst, err := compile(m, foldPareto)
	if err != nil {
		return nil, nil, err
	}
	s := &solver{inst: inst, meter: newMeter(ctx, Options{}), thresholds: defaultThresholds()}
	fast := s.fastest(0)
	if s.late(fast.lower) {
		return nil, nil, nil
	}
	b := &boundedSearch{inst: &inst.instance, meter: s.meter, thresholds: s.thresholds, limit: *m.DeadlineHours}
	for steps := 1; steps <= mostSteps; steps++ {
		r := newRounding(b, b.timeCut(), steps, fast.plan)
		if r == nil {
			continue
		}
		bounds = append(bounds, r.lower)
		r.run()
		costs = append(costs, r.lower)
	}
	return bounds, costs, nil
}

// Probe is what a probe of so much work finds out about the plans within m's
// budget that take less than cut hours: what none takes less than, and the best
// plan's hours.
func Probe(ctx context.Context, m *Model, cut float64, work int64) (lower, hours float64, err error) {
	inst, err := compile(m, foldPareto)
	if err != nil {
		return 0, 0, err
	}
	s := &solver{inst: inst, meter: newMeter(ctx, Options{}), thresholds: defaultThresholds()}
	s.thresholds.labels, s.thresholds.roundAfter = 0, 0
	cheap, fast := s.cheapest(s.meter), s.fastest(0)
	if s.dear(cheap.lower) {
		return inf, inf, nil
	}
	b := &boundedSearch{
		inst: &inst.instance, meter: s.meter, thresholds: s.thresholds, byTime: true, limit: *m.BudgetUSD, floor: cheap.lower,
		cheap: cheap.plan, fast: fast.plan, best: cheap.plan, upper: inst.makespan(cheap.plan),
		probes: prober{effort: work, open: inf},
	}
	if cut > b.upper {
		return 0, b.upper, nil
	}
	b.probeAt(cut)
	return b.lower, inst.makespan(b.best), nil
}

package bounded_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/bounded"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func meter(l search.Limits) *search.Meter { return search.Start(context.Background(), l) }

// task is a drawn problem with all its plans, and a limit between the values of its cheapest and its fastest plan.
type task struct {
	inst        *problem.Instance
	usd, hours  []float64 // of each plan
	cheap, fast problem.Plan
	byTime      bool
	limit       float64
	least       float64 // the cost or makespan of the best plan within the limit
}

// drawn returns a problem. Every second seed gives a hard one, in which most tasks send data to most others and
// transfers within a place are expensive.
func drawn(seed int) *task {
	r := tiny.Rand(seed)
	shape := tiny.Shape{Tasks: 6, Places: 2, PerPlace: 2, Edges: 0.7, Apart: 4}
	if seed%4 < 2 {
		shape = tiny.Shape{
			Tasks: 1 + r.IntN(5), Places: 1 + r.IntN(3), PerPlace: 1 + r.IntN(3), Edges: min(0.95, 1.5*r.Float64()),
			Rare: 0.5 * r.Float64(),
		}
	}
	k := &task{inst: tiny.Draw(r, shape), byTime: seed%2 == 1}
	free := seed%12 == 4 || seed%12 == 7 // all plans have cost or makespan zero
	for o := range k.inst.Opts {
		switch {
		case free && k.byTime:
			k.inst.Opts[o].Hours = 0
		case free:
			k.inst.Opts[o].USD = 0
		}
	}
	moving, turned := k.inst.USD, k.inst.USDT
	if k.byTime {
		moving, turned = k.inst.Hrs, k.inst.HrsT
	}
	if free {
		clear(moving)
		clear(turned)
	}
	var cheapest, fastest [2]float64
	tiny.Each(k.inst, nil, func(p problem.Plan, usd, hours float64) {
		k.usd, k.hours = append(k.usd, usd), append(k.hours, hours)
		if k.cheap == nil || usd < cheapest[0] || usd == cheapest[0] && (hours < cheapest[1]) != free {
			k.cheap, cheapest = slices.Clone(p), [2]float64{usd, hours}
		}
		if k.fast == nil || hours < fastest[0] || hours == fastest[0] && (usd < fastest[1]) != free {
			k.fast, fastest = slices.Clone(p), [2]float64{hours, usd}
		}
	})
	if k.byTime {
		k.within(between(r, k.usd, cheapest[0], fastest[1]))
	} else {
		k.within(between(r, k.hours, fastest[0], cheapest[1]))
	}
	return k
}

// between returns a number between two quantiles of the values.
func between(r *rand.Rand, of []float64, a, b float64) float64 {
	for {
		if x := of[r.IntN(len(of))]; x >= a && x <= max(a, b) {
			return x
		}
	}
}

// within sets the limit.
func (k *task) within(limit float64) {
	k.limit, k.least = limit, search.Inf
	for i := range k.usd {
		if k.byTime && k.usd[i] <= limit {
			k.least = min(k.least, k.hours[i])
		}
		if !k.byTime && k.hours[i] <= limit {
			k.least = min(k.least, k.usd[i])
		}
	}
}

// search returns a search for the best plan within the limit.
func (k *task) search(th search.Thresholds, m *search.Meter) *bounded.Search {
	floor := slices.Min(k.usd)
	s := &bounded.Search{Inst: k.inst, Meter: m, Thresholds: th, ByTime: k.byTime, Limit: k.limit, Floor: floor}
	lower := floor
	if k.byTime {
		lower = slices.Min(k.hours)
	}
	s.Start(k.cheap, k.fast, []problem.Plan{k.cheap, k.fast}, lower)
	return s
}

// objective returns the cost or makespan of plan p, and whether p is within the limit.
func (k *task) objective(p problem.Plan) (x float64, kept bool) {
	usd, hours := tiny.Evaluate(k.inst, p)
	if k.byTime {
		return hours, usd <= k.limit
	}
	return usd, hours <= k.limit
}

// methods returns thresholds that force each method to do work that another method usually does first.
func methods() []search.Thresholds {
	var list []search.Thresholds
	for _, change := range []func(*search.Thresholds){
		func(*search.Thresholds) {},
		func(th *search.Thresholds) { th.Labels = 0 },
		func(th *search.Thresholds) { th.Labels, th.ManyTasks = 0, 0 },
		func(th *search.Thresholds) { th.Labels, th.TableEntries = 0, 0 },
		func(th *search.Thresholds) { th.Labels, th.RoundAfter = 0, 0 },
		func(th *search.Thresholds) { th.Labels, th.RoundAfter, th.ManyTasks = 0, 100, 0 },
		func(th *search.Thresholds) { th.Labels, th.RoundAfter, th.RoundEntries = 0, 100, 0 },
		func(th *search.Thresholds) { th.Labels, th.RoundAfter = 0, 2000 },
	} {
		th := search.DefaultThresholds()
		change(&th)
		list = append(list, th)
	}
	return list
}

// Every method must find the optimum, which is computed by brute force, in a known number of steps. A search that
// excludes too little or repeats work would take more steps, and one that does not count its steps would exceed its
// work limit.
func TestSearchMatchesBruteForce(t *testing.T) {
	steps := make([]int64, 2*len(methods())) // the second half counts problems in which all plans are equal
	for seed := range 300 {
		k := drawn(seed)
		for i, th := range methods() {
			m := meter(search.Limits{})
			s := k.search(th, m)
			s.Run()
			if k.least == 0 {
				steps[len(methods())+i] += m.Work
			} else {
				steps[i] += m.Work
			}
			if x, kept := k.objective(s.Best); x != k.least || !kept || !s.Finished() || s.Lower > k.least+1e-9 ||
				s.Lower < k.least-1e-6 {
				t.Fatalf("seed %d, method %d: a plan of %v (%v) with a bound of %v (%v), the best is %v",
					seed, i, x, kept, s.Lower, s.Finished(), k.least)
			}
		}
	}
	for i, want := range []int64{
		1_334_142, 1_334_438, 3_525_017, 1_530_175, 1_545_739, 3_690_046, 1_303_384, 2_432_044,
		17_893, 17_893, 187_393, 18_073, 21_227, 290_208, 17_893, 20_262,
	} {
		if !tiny.StepsNear(steps[i], want, 2e-5) {
			t.Errorf("method %d takes %d steps, not about %d", i, steps[i], want)
		}
	}
}

// If a network has as many entries as the threshold, times must not be rounded.
func TestRoundEntriesThreshold(t *testing.T) {
	for seed := 2; seed < 40; seed += 4 {
		k := drawn(seed)
		entries := 0
		for _, e := range k.inst.Edges {
			entries += len(k.inst.SpansOf(e.From)) * len(k.inst.SpansOf(e.To))
		}
		var steps []int64
		for _, most := range []int{0, entries, entries + 1} {
			th, m := search.DefaultThresholds(), meter(search.Limits{})
			th.Labels, th.RoundAfter, th.RoundEntries = 0, 100, most
			k.search(th, m)
			steps = append(steps, m.Work)
		}
		if steps[1] != steps[0] || steps[2] == steps[0] {
			t.Errorf("seed %d: with thresholds of 0, %d and %d entries it takes %v steps", seed, entries, entries+1, steps)
		}
	}
}

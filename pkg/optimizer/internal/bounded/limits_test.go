package bounded_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/bounded"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

// The search is stopped after any amount of work. Its plan must keep the limit, and its bound must be valid.
func TestStoppedSearchHasValidBound(t *testing.T) {
	var steps int64
	for seed := range 24 {
		k := drawn(seed)
		for i, th := range methods() {
			for work := int64(1); work < 20000; work = work*8/5 + 1 {
				m := meter(search.Limits{Work: work})
				s := k.search(th, m)
				s.Run()
				steps += m.Work
				x, kept := k.objective(s.Best)
				if !kept || s.Lower > k.least+1e-9 || s.Lower > x || s.Finished() && x > k.least {
					t.Fatalf("seed %d, method %d, %d steps: a plan of %v (%v) with a bound of %v (%v), the best is %v",
						seed, i, work, x, kept, s.Lower, s.Finished(), k.least)
				}
			}
		}
	}
	if !tiny.StepsNear(steps, 3_428_360, 2e-5) {
		t.Errorf("%d steps in total", steps)
	}
}

// The search must end as soon as its bound proves the requested gap.
func TestGapEndsSearch(t *testing.T) {
	sooner, steps := 0, int64(0)
	for seed := range 32 {
		k := drawn(seed)
		for i, th := range methods() {
			whole, part := meter(search.Limits{}), meter(search.Limits{Gap: 0.2})
			k.search(th, whole).Run()
			s := k.search(th, part)
			s.Run()
			x, kept := k.objective(s.Best)
			if !kept || s.Lower > k.least+1e-9 || x-s.Lower > 0.2*x+1e-9 {
				t.Fatalf("seed %d, method %d: a plan of %v (%v) with a bound of %v, the best is %v",
					seed, i, x, kept, s.Lower, k.least)
			}
			steps += part.Work
			if part.Work < whole.Work {
				sooner++
			}
		}
	}
	if sooner < 60 || !tiny.StepsNear(steps, 1_512_820, 3e-5) {
		t.Errorf("%d searches end sooner, %d steps in total", sooner, steps)
	}
}

// Of equally good plans, the known plan that was given first must be returned.
func TestKnownPlanWinsTies(t *testing.T) {
	for seed := 0; seed < 120; seed += 2 {
		k := drawn(seed)
		var first, last problem.Plan
		tiny.Each(k.inst, nil, func(p problem.Plan, _, _ float64) {
			if x, kept := k.objective(p); kept && x == k.least {
				if last = slices.Clone(p); first == nil {
					first = last
				}
			}
		})
		k.cheap, k.fast = first, last
		for i, th := range methods() {
			s := k.search(th, meter(search.Limits{}))
			if s.Run(); !slices.Equal(s.Best, first) {
				t.Fatalf("seed %d, method %d: of plans of %v, %v was found instead of %v", seed, i, k.least, s.Best, first)
			}
		}
	}
}

// With too little memory, the bound must be the value of the cheapest or fastest plan, and the search must return a
// plan within the limit. If no known plan is within the limit, it must return none.
func TestSearchWithLittleMemory(t *testing.T) {
	th := search.DefaultThresholds()
	for seed := range 40 {
		k := drawn(seed)
		th.WindowEntries = k.inst.NTask() * k.inst.NPlace
		s := k.search(th, meter(search.Limits{}))
		if s.Run(); !s.Finished() {
			t.Fatalf("seed %d: there is memory, but no proof", seed)
		}
		th.WindowEntries--
		s = k.search(th, meter(search.Limits{}))
		s.Run()
		lower := slices.Min(k.usd)
		if k.byTime {
			lower = slices.Min(k.hours)
		}
		if x, kept := k.objective(s.Best); !kept || x < s.Lower || s.Lower != lower || s.Finished() && x > lower {
			t.Fatalf("seed %d: a plan of %v (%v) with a bound of %v (%v)", seed, x, kept, s.Lower, s.Finished())
		}
		if k.limit = slices.Min(k.hours) - 0.5; k.byTime {
			k.limit = slices.Min(k.usd) - 0.5
		}
		if k.limit < 0 {
			continue
		}
		s = k.search(search.DefaultThresholds(), meter(search.Limits{}))
		if s.Run(); s.Best != nil || s.Finished() || s.Lower != lower {
			t.Fatalf("seed %d: plan %v with a bound of %v (%v), but none is within the limit",
				seed, s.Best, s.Lower, s.Finished())
		}
	}
}

// Times are rounded down to parts of the deadline. The cheapest plan must then cost at most as much as the cheapest
// plan within the deadline, which is computed by brute force.
func TestRoundingIsLowerBound(t *testing.T) {
	barred := 0
	for seed := 0; seed < 160; seed += 2 {
		k := drawn(seed)
		if k.limit == 0 {
			continue
		}
		for steps := 1; steps <= bounded.MaxSteps; steps++ {
			s := &bounded.Search{
				Inst: k.inst, Meter: meter(search.Limits{}), Thresholds: search.DefaultThresholds(), Limit: k.limit,
			}
			r := bounded.NewRounding(s, s.TimeCut(), steps, k.fast)
			rounded := *k.inst
			rounded.Hrs, rounded.Opts = make([]float64, len(k.inst.Hrs)), slices.Clone(k.inst.Opts)
			for o := range rounded.Opts {
				parts := rounded.Opts[o].Hours / k.limit * float64(steps+1)
				// The rounded deadline is just below steps + 1 parts.
				rounded.Opts[o].Hours = math.Floor(parts * (1 - 1e-8))
			}
			least := tiny.Cheapest(&rounded, float64(steps))
			if r == nil { // rounding fails only if an option is too slow by itself
				alive, free := make([]bool, len(rounded.Opts)), search.Inf
				for o := range alive {
					alive[o] = rounded.Opts[o].Hours <= float64(steps)
				}
				tiny.Each(&rounded, alive, func(_ problem.Plan, usd, _ float64) { free = min(free, usd) })
				if least != free {
					t.Fatalf("seed %d, %d steps: %v is excluded, but there is no rounding", seed, steps, free)
				}
				continue
			}
			barred++
			if r.Lower > least+1e-9 || least > k.least {
				t.Fatalf("seed %d, %d steps: a bound of %v, the minimum is %v, or %v in time",
					seed, steps, r.Lower, least, k.least)
			}
			if r.Run(); math.Abs(r.Lower-least) > 1e-6 {
				t.Fatalf("seed %d, %d steps: at least %v, not %v", seed, steps, r.Lower, least)
			}
		}
	}
	if barred == 0 {
		t.Error("rounded times exclude nothing")
	}
}

// A task that takes the deadline plus a rounding error must be in time, also with rounded times. Two tasks in a row
// of six tenths of the deadline each must not.
func TestDeadlineToleratesRoundingErrors(t *testing.T) {
	edges := []problem.Link{{From: 1, To: 2}}
	inst := &problem.Instance{
		NPlace: 1, USD: []float64{0}, USDT: []float64{0}, Hrs: []float64{0}, HrsT: []float64{0},
		Opts: []problem.Option{
			{USD: 1, Hours: 10 + 5e-9}, {Cand: 1, USD: 9, Hours: 1},
			{Hours: 6}, {Cand: 1, USD: 5, Hours: 1}, {Hours: 6}, {Cand: 1, USD: 5, Hours: 1},
		},
		First: []int32{0, 2, 4, 6},
		Links: problem.Links{Order: []int32{0, 1, 2}, Topo: []int32{0, 1, 2}, Edges: edges},
		In:    problem.Adjacent(3, edges, func(e *problem.Link) int32 { return e.To }),
		Out:   problem.Adjacent(3, edges, func(e *problem.Link) int32 { return e.From }),
	}
	inst.GroupByPlace()
	k := &task{inst: inst, cheap: problem.Plan{0, 0, 0}, fast: problem.Plan{1, 1, 1}, limit: 10, usd: []float64{1}}
	for i, th := range methods() {
		s := k.search(th, meter(search.Limits{}))
		if s.Run(); !slices.Equal(s.Best, problem.Plan{0, 0, 1}) && !slices.Equal(s.Best, problem.Plan{0, 1, 0}) {
			t.Errorf("method %d: the best plan is %v", i, s.Best)
		}
		r := bounded.NewRounding(s, s.TimeCut(), 1, k.fast)
		if r.Run(); r.Lower != 6 {
			t.Errorf("method %d: with rounded times the cheapest costs %v", i, r.Lower)
		}
	}
}

// Without any step, the plan must cost at most as much as the given plans.
func TestRoundingStartsFromGivenPlans(t *testing.T) {
	for seed := 0; seed < 160; seed += 2 {
		k := drawn(seed)
		if k.limit == 0 {
			continue
		}
		tried := 0
		tiny.Each(k.inst, nil, func(p problem.Plan, usd, hours float64) {
			if tried++; tried%7 > 0 || hours > k.limit {
				return
			}
			for steps := 1; steps <= bounded.MaxSteps; steps += 4 {
				m := meter(search.Limits{Work: 1})
				m.Spend(1)
				s := &bounded.Search{Inst: k.inst, Meter: m, Thresholds: search.DefaultThresholds(), Limit: k.limit}
				if r := bounded.NewRounding(s, s.TimeCut(), steps, p); r != nil && r.Upper > usd {
					t.Fatalf("seed %d, %d steps: the first plan costs %v, the given one %v", seed, steps, r.Upper, usd)
				}
			}
		})
	}
}

// With too little work to prove or refute, a probe must return neither result.
func TestProbeAt(t *testing.T) {
	open := 0
	for seed := 1; seed < 160; seed += 2 {
		k := drawn(seed)
		for _, th := range methods() {
			for _, effort := range []int64{1, 300, 1000, 1 << 40} {
				upper, _ := k.objective(k.cheap)
				for _, cut := range []float64{k.least - 1, k.least, k.least + 0.5, (k.least + upper) / 2} {
					if cut > upper || cut <= 0 {
						continue
					}
					m := meter(search.Limits{})
					s := &bounded.Search{
						Inst: k.inst, Meter: m, Thresholds: th, ByTime: true, Limit: k.limit, Floor: slices.Min(k.usd),
						Cheap: k.cheap, Fast: k.fast, Best: k.cheap, Upper: upper,
						Probes: bounded.Prober{Effort: effort, Open: search.Inf},
					}
					s.ProbeAt(cut)
					x, kept := k.objective(s.Best)
					found, proven := x < cut, s.Lower > 0
					undecided := s.Probes.Open == cut
					if !undecided {
						s.Probes.Open = 0
					}
					if undecided {
						open++
					}
					switch {
					case !kept, x != s.Upper, s.Lower > k.least, proven && s.Lower != cut, found && proven,
						undecided == (found || proven), undecided && effort > 1e9, undecided && m.Work < effort:
						t.Fatalf("seed %d: below %v a plan of %v (%v) is found after %d of %d steps, %v is proven (%v)",
							seed, cut, x, kept, m.Work, effort, s.Lower, undecided)
					}
				}
			}
		}
	}
	if open == 0 {
		t.Error("every probe decides at once")
	}
}

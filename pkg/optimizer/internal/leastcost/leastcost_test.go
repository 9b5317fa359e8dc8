package leastcost_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/leastcost"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func meter(l search.Limits) *search.Meter { return search.Start(context.Background(), l) }

func drawn(seed int) *problem.Instance {
	r := tiny.Rand(seed)
	return tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(6), Places: 1 + r.IntN(4), PerPlace: 1 + r.IntN(2), Edges: min(0.95, 1.5*r.Float64()),
		Rare: 0.6 * r.Float64(),
	})
}

// efforts returns thresholds that force the search to do work that another method usually does first.
func efforts() []search.Thresholds {
	full, branch, some := search.DefaultThresholds(), search.DefaultThresholds(), search.DefaultThresholds()
	branch.Effort = search.Efforts{}
	for _, e := range []*search.Effort{
		&some.Effort.Root, &some.Effort.Again, &some.Effort.Plunge, &some.Effort.Branch,
	} {
		e.Buckets, e.Series, e.Sweeps = 0, 0, min(e.Sweeps, 2)
	}
	early := some
	early.Effort = search.Efforts{Branch: some.Effort.Branch}
	return []search.Thresholds{full, branch, some, early}
}

// Every method must find the optimum, which is computed by brute force.
func TestSolveMatchesBruteForce(t *testing.T) {
	for seed := range 300 {
		inst := drawn(seed)
		least := tiny.Cheapest(inst, search.Inf)
		for k, th := range efforts() {
			p, lower, proven := leastcost.NewSolver(inst, th, meter(search.Limits{})).Solve(nil)
			if usd, _ := tiny.Evaluate(inst, p); usd != least || !proven || lower > least+1e-9 || lower < least-1e-6 {
				t.Fatalf("seed %d, effort %d: a plan of %v with a bound of %v (%v), the cheapest costs %v",
					seed, k, usd, lower, proven, least)
			}
		}
	}
}

// The search is stopped after any amount of work. Its bound must be valid.
func TestStoppedSearchHasValidBound(t *testing.T) {
	for seed := range 60 {
		inst := drawn(seed)
		if seed%3 == 0 {
			inst = knotted(seed)
		}
		least := tiny.Cheapest(inst, search.Inf)
		for k, th := range efforts() {
			for work := int64(1); work < 10000; work = work*3/2 + 1 {
				p, lower, proven := leastcost.NewSolver(inst, th, meter(search.Limits{Work: work})).Solve(nil)
				usd, _ := tiny.Evaluate(inst, p)
				if lower > least+1e-9 || proven && usd > least || !proven && lower > usd {
					t.Fatalf("seed %d, effort %d, %d steps: a plan of %v with a bound of %v (%v), the minimum is %v",
						seed, k, work, usd, lower, proven, least)
				}
			}
		}
	}
}

// Of equally good plans, the known plan must be kept.
func TestKnownPlanWinsTies(t *testing.T) {
	for seed := range 100 {
		inst := drawn(seed)
		least := tiny.Cheapest(inst, search.Inf)
		tiny.Each(inst, nil, func(p problem.Plan, usd, _ float64) {
			if usd != least {
				return
			}
			known := slices.Clone(p)
			s := leastcost.NewSolver(inst, search.DefaultThresholds(), meter(search.Limits{}))
			got, _, _ := s.Solve([]problem.Plan{p})
			if !slices.Equal(got, known) || !slices.Equal(p, known) {
				t.Fatalf("seed %d: of plans of %v, %v was found instead of %v", seed, least, got, known)
			}
		})
	}
}

// Without memory for a network, the plan must be such that no move of a single task lowers its cost. It must cost at
// most as much as the plan with each task at its cheapest option, and as each plan with all tasks at one place.
func TestSolveWithLittleMemory(t *testing.T) {
	th := search.DefaultThresholds()
	th.NetworkEntries = 0
	for seed := range 200 {
		inst := drawn(seed)
		if seed%4 == 0 {
			inst = knotted(seed)
		}
		least := tiny.Cheapest(inst, search.Inf)
		p, lower, proven := leastcost.NewSolver(inst, th, meter(search.Limits{})).Solve(nil)
		usd, _ := tiny.Evaluate(inst, p)
		if lower > least || proven && usd > least || lower == least && usd == least && !proven {
			t.Fatalf("seed %d: a plan of %v with a bound of %v (%v), the cheapest costs %v",
				seed, usd, lower, proven, least)
		}
		simple(inst, func(start problem.Plan) {
			if dear, _ := tiny.Evaluate(inst, start); dear < usd {
				t.Fatalf("seed %d: a plan of %v, but a simple one costs %v", seed, usd, dear)
			}
		})
		for task := range p {
			for k := range inst.Options(int32(task)) {
				q := slices.Clone(p)
				q[task] = int32(k)
				if moved, _ := tiny.Evaluate(inst, q); moved < usd {
					t.Fatalf("seed %d: a plan of %v, but with task %d moved it is %v", seed, usd, task, moved)
				}
			}
		}
	}
}

// simple calls try with two plans: each task at its cheapest option, and all tasks at the place with the lowest total
// cost.
func simple(inst *problem.Instance, try func(problem.Plan)) {
	alone := make(problem.Plan, inst.NTask())
	for task := range alone {
		opts := inst.Options(int32(task))
		for k := range opts {
			if opts[k].USD < opts[alone[task]].USD {
				alone[task] = int32(k)
			}
		}
	}
	try(alone)
	least, together := search.Inf, alone
	for place := range inst.NPlace {
		p := slices.Clone(alone)
		for task := range p {
			opts := inst.Options(int32(task))
			if k := slices.IndexFunc(opts, func(o problem.Option) bool { return int(o.Place) == place }); k >= 0 {
				p[task] = int32(k)
			}
		}
		if usd, _ := tiny.Evaluate(inst, p); usd < least && len(inst.Spans) == inst.NTask()*inst.NPlace {
			least, together = usd, p
		}
	}
	try(together)
}

// A network of all tasks would be too large. A component with a small network must be proven nevertheless.
func TestComponentsAreSolvedSeparately(t *testing.T) {
	open := 0
	for seed := range 50 {
		r := tiny.Rand(seed)
		inst := tiny.Draw(r, tiny.Shape{Tasks: 6, Places: 3, PerPlace: 1, Edges: 0.3, Apart: 1})
		least := tiny.Cheapest(inst, search.Inf)
		most := 0
		for _, size := range parts(inst) {
			most = max(most, size)
		}
		th := search.DefaultThresholds()
		th.NetworkEntries = most
		p, _, proven := leastcost.NewSolver(inst, th, meter(search.Limits{})).Solve(nil)
		if usd, _ := tiny.Evaluate(inst, p); !proven || usd != least {
			t.Fatalf("seed %d: a plan of %v (%v), the cheapest costs %v", seed, usd, proven, least)
		}
		th.NetworkEntries--
		if _, _, proven := leastcost.NewSolver(inst, th, meter(search.Limits{})).Solve(nil); !proven {
			open++
		}
	}
	if open < 40 {
		t.Errorf("of 50 components that are too large, %d are open", open)
	}
}

// parts returns the sizes of the networks of connected tasks. A network has the costs of each task at each place, and
// two tables for each transfer.
func parts(inst *problem.Instance) map[int]int {
	part := make([]int, inst.NTask())
	for t := range part {
		part[t] = t
	}
	for range part {
		for _, e := range inst.Edges {
			if e.SumGiB > 0 {
				least := min(part[e.From], part[e.To])
				part[e.From], part[e.To] = least, least
			}
		}
	}
	sizes := map[int]int{}
	for _, p := range part {
		sizes[p] += inst.NPlace
	}
	for _, e := range inst.Edges {
		sizes[part[e.From]] += 2 * inst.NPlace
	}
	return sizes
}

// Each row entry must be the maximum extra cost per GiB of a move from one place to another, over all peers, and some
// peer must reach it.
func TestDominationRows(t *testing.T) {
	for seed := range 20 {
		inst := knotted(seed)
		d := leastcost.NewDomination(inst)
		n := inst.NPlace
		for b := range n {
			out, in := d.Rows(int32(b))
			for a := range n {
				var sent, received []float64
				for q := range n {
					sent = append(sent, inst.USD[b*n+q]-inst.USD[a*n+q])
					received = append(received, inst.USD[q*n+b]-inst.USD[q*n+a])
				}
				if out[a] != slices.Max(sent) || in[a] != slices.Max(received) {
					t.Fatalf("seed %d: from %d to %d a GiB costs %v and %v more, not at most %v and %v",
						seed, a, b, sent, received, out[a], in[a])
				}
			}
		}
		for task := range int32(inst.NTask()) {
			sent, received := leastcost.DataMoved(inst, task)
			for _, e := range inst.Edges {
				if e.From == task {
					sent -= e.SumGiB
				}
				if e.To == task {
					received -= e.SumGiB
				}
			}
			if sent != 0 || received != 0 {
				t.Fatalf("seed %d: of task %d, %v and %v GiB are missing", seed, task, -sent, -received)
			}
		}
	}
}

package windows_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/schedule"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

func meter() *search.Meter { return search.Start(context.Background(), search.Limits{}) }

// drawn returns a problem. For odd seeds its graph is a chain, for which windows are exact.
func drawn(seed int) *problem.Instance {
	r := tiny.Rand(seed)
	inst := tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(5), Places: 1 + r.IntN(3), PerPlace: 1 + r.IntN(3), Edges: min(0.9, 1.5*r.Float64()),
		Rare: 0.5 * r.Float64(), Apart: float64(3 * r.IntN(2)),
	})
	if seed%2 == 1 {
		rank := r.Perm(inst.NTask())
		inst.Edges = nil
		for i := 1; i < len(rank); i++ {
			l := problem.Link{From: int32(rank[i-1]), To: int32(rank[i]), SumGiB: 1, MaxGiB: 2}
			inst.Edges = append(inst.Edges, l)
		}
		inst.Edges = problem.MergeParallel(inst.Edges)
		inst.Topo = problem.Topological(len(rank), inst.Edges)
		inst.In = problem.Adjacent(len(rank), inst.Edges, func(e *problem.Link) int32 { return e.To })
		inst.Out = problem.Adjacent(len(rank), inst.Edges, func(e *problem.Link) int32 { return e.From })
	}
	return inst
}

// check compares the windows with all plans that use the remaining options and end before the cut. The tasks of these
// plans must be within the windows. On a chain, some plan must reach each end of a window. check returns the number
// of these plans.
func check(
	t *testing.T, inst *problem.Instance, w *windows.Windows, alive []bool, cut float64, exact bool,
) (plans int) {
	t.Helper()
	n := inst.NPlace
	start, after, through := full(len(w.Start)), full(len(w.Start)), full(len(w.Start))
	fastest := search.Inf
	tiny.Each(inst, alive, func(p problem.Plan, _, hours float64) {
		if hours >= cut {
			return
		}
		plans++
		fastest = min(fastest, hours)
		s := schedule.New(inst, p)
		for task := range p {
			i := task*n + inst.PlaceOf(p, int32(task))
			start[i], after[i] = min(start[i], s.Start[task]), min(after[i], s.After[task])
			own := inst.Options(int32(task))[p[task]].Hours
			through[i] = min(through[i], s.Start[task]+own+s.After[task])
		}
	})
	for i := range start {
		if start[i] == search.Inf {
			if exact && plans > 0 && w.Quick[i] < search.Inf {
				t.Fatalf("a task may be at %d, but is there in no plan below %v", i, cut)
			}
			continue
		}
		bound := w.Start[i] + w.Quick[i] + w.After[i]
		if w.Start[i] > start[i] || w.After[i] > after[i] || bound > through[i] {
			t.Fatalf("at %d: start %v, after %v, through %v, but a plan has %v, %v and %v",
				i, w.Start[i], w.After[i], bound, start[i], after[i], through[i])
		}
		if exact && (w.Start[i] != start[i] || w.After[i] != after[i] || bound != through[i]) {
			t.Fatalf("at %d: start %v, after %v, through %v, but the minimum of all plans is %v, %v and %v",
				i, w.Start[i], w.After[i], bound, start[i], after[i], through[i])
		}
	}
	if plans > 0 && (w.Lower() > fastest || exact && w.Lower() != fastest) {
		t.Fatalf("the bound is %v hours, but the fastest plan takes %v", w.Lower(), fastest)
	}
	return plans
}

func full(n int) []float64 { return slices.Repeat([]float64{search.Inf}, n) }

// The cut falls and tasks are placed. Windows must contain all plans below the cut, and on a chain no others.
func TestWindowsMatchBruteForce(t *testing.T) {
	dead := 0
	m := meter()
	for seed := range 300 {
		inst, r := drawn(seed), tiny.Rand(seed)
		w := windows.New(inst)
		var s network.Scratch
		if !w.Propagate(search.Inf, &s, m) {
			t.Fatalf("seed %d: no plan at all", seed)
		}
		exact := seed%2 == 1
		check(t, inst, w, nil, search.Inf, exact)
		copied, before := w.Clone(), w.Clone()
		alive := slices.Repeat([]bool{true}, len(inst.Opts))
		cut := 1.5*w.Lower() + 0.5
		for {
			cut = math.Floor(0.9*cut) - float64(seed%4/2)/2 // a number of whole hours, or between two
			if r.IntN(2) == 0 {
				task := int32(r.IntN(inst.NTask()))
				place := inst.Options(task)[r.IntN(len(inst.Options(task)))].Place
				for o := inst.First[task]; o < inst.First[task+1]; o++ {
					alive[o] = alive[o] && inst.Opts[o].Place == place
				}
				w.Take(task, int(place))
			}
			w.Recheck()
			open := w.Propagate(cut, &s, m)
			if !open {
				if plans := check(t, inst, before, alive, cut, false); plans > 0 {
					t.Fatalf("seed %d: no plan below %v is left of %d", seed, cut, plans)
				}
				dead++
				break
			}
			if plans := check(t, inst, w, alive, cut, exact); plans == 0 && exact {
				t.Fatalf("seed %d: no plan is below %v, but Propagate returns true", seed, cut)
			}
			if cut < 1 {
				break
			}
		}
		if !slices.Equal(copied.Quick, before.Quick) || !slices.Equal(copied.Start, before.Start) ||
			!slices.Equal(copied.After, before.After) {
			t.Fatalf("seed %d: the original of a copy has changed", seed)
		}
	}
	if dead < 250 || !tiny.StepsNear(m.Work, 14_385, 2e-3) {
		t.Errorf("%d of 300 have an end, after %d steps", dead, m.Work)
	}
}

// On a chain, TwoFastest must return the place at which the fastest plan has the task, and the hours of the fastest
// plan with the task at another place. Both are computed by brute force.
func TestTwoFastest(t *testing.T) {
	for seed := 1; seed < 300; seed += 2 {
		inst := drawn(seed)
		w := windows.New(inst)
		var s network.Scratch
		w.Propagate(search.Inf, &s, meter())
		for task := range int32(inst.NTask()) {
			by := full(inst.NPlace)
			tiny.Each(inst, nil, func(p problem.Plan, _, hours float64) {
				at := inst.PlaceOf(p, task)
				by[at] = min(by[at], hours)
			})
			sorted := slices.Sorted(slices.Values(by))
			sorted = append(sorted, search.Inf)
			if p, second := w.TwoFastest(task); by[p] != sorted[0] || second != sorted[1] {
				t.Fatalf("seed %d: task %d at %d and then %v, its places take %v", seed, task, p, second, by)
			}
		}
	}
}

// If the meter stops, the propagation must end.
func TestPropagateWithoutChanges(t *testing.T) {
	inst := drawn(7)
	w := windows.New(inst)
	var s network.Scratch
	m := meter()
	w.Propagate(search.Inf, &s, m)
	before := m.Work
	if !w.Propagate(0, &s, m) || m.Work != before {
		t.Errorf("%d steps although nothing has changed", m.Work-before)
	}
	w.Recheck()
	m.Stopped = true
	if !w.Propagate(0, &s, m) || m.Work != before {
		t.Error("continues although it is stopped")
	}
	m.Stopped = false
	if w.Propagate(0, &s, m) {
		t.Error("a plan has negative time")
	}
}

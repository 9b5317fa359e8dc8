package windows_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// All values of a box must equal those of brute force.
func TestBoxMatchesBruteForce(t *testing.T) {
	ends := map[string]int{}
	for seed := range 400 {
		inst, r := drawn(seed), tiny.Rand(seed)
		b := windows.NewBox(inst)
		alive := slices.Repeat([]bool{true}, len(inst.Opts))
		fastest := tiny.Fastest(inst, search.Inf)
		cut := search.Inf
		var s network.Scratch
		var open bool
		for range 1 + r.IntN(5) {
			if r.IntN(3) == 0 {
				cut = min(cut, fastest*(1+r.Float64())+0.5)
				b.Windows.Recheck()
				open = b.Narrow(cut, &s, meter())
			} else {
				d := search.Decision{Task: int32(r.IntN(inst.NTask()))}
				d.Value = inst.First[d.Task] + int32(r.IntN(len(inst.Options(d.Task))))
				d.Kind = [4]search.Decision{
					{Kind: search.LeaveOut}, {Kind: search.Take}, {Kind: search.AtMost}, {Kind: search.Above},
				}[r.IntN(4)].Kind
				decide(inst, alive, d)
				open = b.Apply(&d)
			}
			plans := 0
			tiny.Each(inst, alive, func(p problem.Plan, _, hours float64) {
				if hours >= cut {
					return
				}
				plans++
				if open && !b.Holds(p) {
					t.Fatalf("seed %d: plan %v of %v h is missing below %v", seed, p, hours, cut)
				}
			})
			if !open {
				if plans > 0 {
					t.Fatalf("seed %d: nothing is left of %d plans", seed, plans)
				}
				break
			}
			counted(t, b, alive)
		}
		switch {
		case !open:
			ends["empty"]++
		case b.Single():
			ends["single"]++
			single(t, b)
		default:
			ends["several"]++
		}
	}
	if ends["empty"] < 50 || ends["single"] < 50 || ends["several"] < 50 {
		t.Errorf("boxes end with %v", ends)
	}
}

// decide removes the options that a decision excludes.
func decide(inst *problem.Instance, alive []bool, d search.Decision) {
	value := inst.Opts[d.Value]
	for o := inst.First[d.Task]; o < inst.First[d.Task+1]; o++ {
		keeps := map[bool]bool{true: true}
		switch d.Kind {
		case search.LeaveOut:
			keeps[true] = o != d.Value
		case search.Take:
			keeps[true] = o == d.Value
		case search.AtMost:
			keeps[true] = inst.Opts[o].Hours <= value.Hours
		case search.Above:
			keeps[true] = inst.Opts[o].Hours > value.Hours
		}
		alive[o] = alive[o] && keeps[true]
	}
}

// counted checks the number of remaining options and the minimum time, for each place.
func counted(t *testing.T, b *windows.Box, alive []bool) {
	t.Helper()
	inst := b.Inst
	for task := range inst.NTask() {
		left, quick := int32(0), full(inst.NPlace)
		for o := inst.First[task]; o < inst.First[task+1]; o++ {
			if b.Alive[o] && !alive[o] {
				t.Fatalf("option %d of task %d is alive again", o, task)
			}
			if b.Alive[o] {
				left++
				quick[inst.Opts[o].Place] = min(quick[inst.Opts[o].Place], inst.Opts[o].Hours)
			}
		}
		for p, q := range b.Windows.At(b.Windows.Quick, int32(task)) {
			if q < quick[p] {
				t.Fatalf("task %d takes %v at %d, and no option less than %v", task, q, p, quick[p])
			}
		}
		if b.Left[task] != left {
			t.Fatalf("task %d has %d options left, not %d", task, left, b.Left[task])
		}
	}
}

// single checks a box that has one option for each task: it must have one plan, and a change must not affect its
// copy.
func single(t *testing.T, b *windows.Box) {
	t.Helper()
	p := b.Plan()
	if !b.Holds(p) {
		t.Fatalf("plan %v is not in its box", p)
	}
	c := b.Clone()
	if c.Keep(0, func(int32) bool { return false }) {
		t.Fatal("an option is left in an empty box")
	}
	if c.Holds(p) || !b.Holds(p) || b.Left[0] != 1 || !c.Single() && c.Left[0] == 1 {
		t.Fatalf("plan %v is in the copy or not in the box", p)
	}
	for task := range p {
		for k := range b.Inst.Options(int32(task)) {
			q := slices.Clone(p)
			if q[task] = int32(k); k != int(p[task]) && b.Holds(q) {
				t.Fatalf("plan %v is in the box of %v", q, p)
			}
		}
	}
}

// On a chain, each option that remains after Narrow must be in a plan below the cut.
func TestNarrowIsExactOnChains(t *testing.T) {
	for seed := 1; seed < 400; seed += 2 {
		inst := drawn(seed)
		b := windows.NewBox(inst)
		cut := 1.3*tiny.Fastest(inst, search.Inf) + 0.5
		var s network.Scratch
		if !b.Narrow(cut, &s, meter()) {
			t.Fatalf("seed %d: nothing is below %v", seed, cut)
		}
		used := make([]bool, len(inst.Opts))
		tiny.Each(inst, nil, func(p problem.Plan, _, hours float64) {
			for task, k := range p {
				used[inst.First[task]+k] = used[inst.First[task]+k] || hours < cut
			}
		})
		if !slices.Equal(used, b.Alive) {
			t.Fatalf("seed %d: %v are left, but plans below %v use %v", seed, b.Alive, cut, used)
		}
		if b.Windows.Recheck(); b.Narrow(0, &s, meter()) {
			t.Fatalf("seed %d: a plan has negative time", seed)
		}
	}
}

// SplitAt must return the slowest option on the fast side, and the distance to the nearer side.
func TestSplitAt(t *testing.T) {
	inst := tiny.Draw(tiny.Rand(1), tiny.Shape{Tasks: 1, Places: 2, PerPlace: 3})
	inst.Opts = []problem.Option{
		{Place: 0, Hours: 6}, {Place: 0, USD: 1, Hours: 4}, {Place: 0, USD: 2, Hours: 1},
		{Place: 1, Hours: 9}, {Place: 1, USD: 1, Hours: 2},
	}
	inst.First = []int32{0, 5}
	inst.GroupByPlace()
	b := windows.NewBox(inst)
	for _, c := range []struct {
		hours float64
		o     int32
		gap   float64
	}{
		{0.5, -1, 0}, {1, 2, 0}, {1.2, 2, 0.2}, {1.9, 2, 0.1}, {4, 1, 0}, {4.5, 1, 0.5}, {7, 0, 1}, {8.5, 0, 0.5},
		{9, -1, 0}, {10, -1, 0},
	} {
		o, gap := b.SplitAt(0, c.hours)
		if o != c.o || gap < c.gap-1e-9 || gap > c.gap+1e-9 {
			t.Errorf("at %v hours: option %d, %v away", c.hours, o, gap)
		}
	}
	b.Keep(0, func(o int32) bool { return o != 1 && o != 0 })
	if o, gap := b.SplitAt(0, 5); o != 4 || gap != 3 {
		t.Errorf("without two of them: option %d, %v away", o, gap)
	}
	if o, _ := b.SplitAt(0, 9); o != -1 {
		t.Errorf("all are equally fast, but are split at %d", o)
	}
}

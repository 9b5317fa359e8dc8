package placement_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// TestSolveIsOptimalOnSmallProblems compares the weighted flow with the maximum over all assignments.
func TestSolveIsOptimalOnSmallProblems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 6, 3)
		n, err := placement.New(p, placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := n.Solve()
		if !allowed(p, r.Assignment) {
			t.Fatalf("%v breaks a constraint", r.Assignment)
		}
		if got, want := placement.Value(p, r.Assignment), best(p); got.Cmp(want) != 0 || !r.Optimal {
			t.Fatalf("%v has a weighted flow of %v, but %v is possible (optimal: %v)", r.Assignment, got, want, r.Optimal)
		}
	})
}

// Without the exact proof that small problems get, the search must still keep every constraint.
func TestSolveWithoutProofRespectsConstraints(t *testing.T) {
	short, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 6, 3)
		n, err := placement.New(p, placement.Options{Exact: -1, Compact: rapid.Bool().Draw(t, "compact")})
		if err != nil {
			t.Fatal(err)
		}
		r := n.Solve()
		report, err := placement.Verify(p, r.Assignment)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Violations) > 0 || report.Placed != r.Placed || report.Placed+r.Waiting != len(p.Instances) {
			t.Fatalf("%v: %+v, %+v", r.Assignment, report, r)
		}
		all++
		if placement.Value(p, r.Assignment).Cmp(best(p)) < 0 {
			short++
		}
	})
	if short*20 > all && !testing.Short() { // too few problems for a ratio
		t.Errorf("%d of %d problems below the optimum", short, all)
	}
}

// After instances are removed, Solve must keep every constraint. No instance may lose its machine to an equal one,
// and nothing may move if nothing changed.
func TestSolveAfterRemovals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, err := placement.New(small(t, 5, 3), placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, gone := n.Problem(), map[int32]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "removals") {
			i := rapid.Int32Range(0, int32(len(p.Instances)-1)).Draw(t, "instance")
			if err := n.RemoveInstance(i); gone[i] != (err != nil) {
				t.Fatalf("instance %d: %v", i, err)
			}
			gone[i] = true
			before := placement.Value(p, n.Assignment())
			r := n.Solve()
			if v := placement.Value(p, r.Assignment); v.Cmp(before) < 0 {
				t.Fatalf("the weighted flow fell from %v to %v", before, v)
			}
			for i := range gone {
				if m := r.Assignment[i]; m != placement.Unplaced {
					t.Fatalf("instance %d is on machine %d", i, m)
				}
			}
			if !allowed(p, r.Assignment) {
				t.Fatalf("%v breaks a constraint", r.Assignment)
			}
			left, now := n.Present()
			for i := range left.Instances {
				left.Instances[i].Machine = placement.Unplaced
			}
			if got, want := placement.Value(left, now), best(left); r.Optimal && got.Cmp(want) != 0 {
				t.Fatalf("%v: weighted flow %v, expected %v", now, got, want)
			}
			if again := n.Solve(); len(again.Moves) > 0 {
				t.Fatalf("nothing changed, but %v moved", again.Moves)
			}
		}
	})
}

func TestPaperSetting(t *testing.T) {
	s := placement.PaperSetting()
	p, err := placement.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	ranked, ruled := 0, map[int32]bool{}
	for _, in := range p.Instances {
		if p.Apps[in.App].Priority > 0 {
			ranked++
		}
	}
	for _, r := range p.Rules {
		ruled[r.A] = true
	}
	if len(p.Machines) != 10_000 || len(p.Instances) != 100_000 || len(p.Apps) != 13_056 || ranked != 15_000 || len(ruled)*100/len(p.Apps) != 69 {
		t.Fatalf("%d machines, %d instances, %d apps, %d with priority, %d apps with rules", len(p.Machines), len(p.Instances), len(p.Apps), ranked, len(ruled))
	}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e := n.Edges(); e > 350_000 {
		t.Errorf("%d edges, but the paper has about 300,000", e)
	}
	r := n.Solve()
	report, err := placement.Verify(p, r.Assignment)
	if err != nil {
		t.Fatal(err)
	}
	if report.Placed != s.Containers || len(report.Violations) > 0 || report.Machines > 7300 {
		t.Errorf("%d placed on %d machines, %d violations", report.Placed, report.Machines, len(report.Violations))
	}

	// A rack fails. Only the instances on it may move.
	next := *p
	next.Shapes = append(slices.Clone(p.Shapes), placement.Shape{Capacity: make([]int64, p.Dims())})
	next.Machines, next.Instances = slices.Clone(p.Machines), slices.Clone(p.Instances)
	ran := 0
	for i, m := range r.Assignment {
		if next.Instances[i].Machine = m; m != placement.Unplaced && p.Machines[m].Rack == 3 {
			next.Instances[i].Machine = placement.Unplaced
			ran++
		}
	}
	for m := range next.Machines {
		if next.Machines[m].Rack == 3 {
			next.Machines[m].Shape = len(next.Shapes) - 1 // a shape without capacity
		}
	}
	if n, err = placement.New(&next, placement.Options{}); err != nil {
		t.Fatal(err)
	}
	again := n.Solve()
	if again.Waiting > 0 || len(again.Moves) != ran || ran == 0 {
		t.Errorf("%d ran on the rack, %d moved, %d wait", ran, len(again.Moves), again.Waiting)
	}
	if report, err := placement.Verify(&next, again.Assignment); err != nil || len(report.Violations) > 0 {
		t.Error(report.Violations, err)
	}
}

// There is not enough room for all instances, but every instance with priority must get a machine. What the search
// remembers from earlier instances of an app may save time, but must not change the placement.
func TestForgettingGivesTheSamePlacement(t *testing.T) {
	s := placement.PaperSetting()
	s.Containers, s.Apps, s.Machines = 2000, 260, 130 // too few machines, so containers have to move
	p, err := placement.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	place := func(o placement.Options) placement.Assignment {
		n, err := placement.New(p, o)
		if err != nil {
			t.Fatal(err)
		}
		return n.Solve().Assignment
	}
	if !slices.Equal(place(placement.Options{}), place(placement.Options{Forget: true})) {
		t.Error("the placements differ")
	}
}

func TestTooFewMachines(t *testing.T) {
	s := placement.Setting{Machines: 200, Containers: 4000, Apps: 600, AntiAffinity: 0.7, Priority: 0.15, Seed: 3}
	p, err := placement.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := n.Solve()
	report, err := placement.Verify(p, r.Assignment)
	if err != nil {
		t.Fatal(err)
	}
	if r.Waiting == 0 || len(report.Violations) > 0 {
		t.Errorf("%d wait, %v", r.Waiting, report.Violations)
	}
	for i, m := range r.Assignment {
		if m == placement.Unplaced && p.Apps[p.Instances[i].App].Priority > 0 {
			t.Errorf("%s has priority but waits", p.Instances[i].Name)
			break
		}
	}
}

func TestGenerateRejectsBadSetting(t *testing.T) {
	for _, s := range []placement.Setting{
		{}, {Machines: 1, Apps: 2, Containers: 1}, {Machines: 1, Apps: 1, Containers: 1, AntiAffinity: 2}, {Machines: 1, Apps: 1, Containers: 1, Priority: -1},
	} {
		if _, err := placement.Generate(s); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

// With Compact, as few machines as possible must be used: the large ones, although they come last.
func TestCompactUsesLargeMachinesFirst(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 2}, {Name: "memory", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{4, 4, 8}}, {Capacity: []int64{16, 16, 64}}},
		Apps:      []placement.App{{Name: "day", Demand: []int64{4, 0, 4}}, {Name: "night", Demand: []int64{0, 4, 4}}},
	}
	for i := range 12 {
		p.Machines = append(p.Machines, placement.Machine{Shape: i / 8})
	}
	for i := range 16 {
		p.Instances = append(p.Instances, placement.Instance{App: int32(i % 2), Machine: placement.Unplaced})
	}
	for compact, want := range map[bool]int{false: 8, true: 2} {
		n, err := placement.New(p, placement.Options{Compact: compact})
		if err != nil {
			t.Fatal(err)
		}
		used := map[int32]bool{}
		for _, m := range n.Solve().Assignment {
			used[m] = true
		}
		if len(used) != want || used[placement.Unplaced] {
			t.Errorf("compact %t: machines %v, want %d", compact, used, want)
		}
	}
}

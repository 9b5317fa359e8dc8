package placement_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/placement"
	"pgregory.net/rapid"
)

// smallPool draws a pool: machines, running instances with their losses, and one instance without a machine.
func smallPool(t *rapid.T) (*placement.Problem, []placement.Loss) {
	p := &placement.Problem{Resources: []placement.Resource{{Name: "cpu", Points: 1}, {Name: "memory", Points: 1}}}
	amount := func(most int) []int64 {
		return []int64{int64(rapid.IntRange(1, most).Draw(t, "cpu")), int64(rapid.IntRange(1, most).Draw(t, "memory"))}
	}
	free := [][]int64{}
	for i := range rapid.IntRange(1, 4).Draw(t, "machines") {
		has := amount(8)
		p.Shapes = append(p.Shapes, placement.Shape{Capacity: has})
		p.Machines = append(p.Machines, placement.Machine{Shape: i})
		free = append(free, append([]int64{}, has...))
	}
	p.Apps = append(p.Apps, placement.App{Demand: amount(8)})
	p.Instances = append(p.Instances, placement.Instance{Machine: placement.Unplaced})
	losses := []placement.Loss{{}}
	for range rapid.IntRange(0, 6).Draw(t, "running") {
		need, m := amount(5), rapid.IntRange(0, len(free)-1).Draw(t, "on")
		if need[0] > free[m][0] || need[1] > free[m][1] {
			continue
		}
		free[m][0], free[m][1] = free[m][0]-need[0], free[m][1]-need[1]
		app := int32(len(p.Apps))
		p.Apps = append(p.Apps, placement.App{Demand: need})
		if len(free) > 1 && rapid.IntRange(0, 4).Draw(t, "bars") == 0 {
			p.Apps[app].Barred = []int32{int32((m + 1) % len(free))}
		}
		p.Instances = append(p.Instances, placement.Instance{App: app, Machine: int32(m)})
		l := placement.Loss{Move: float64(rapid.IntRange(0, 9).Draw(t, "move")), Leave: math.Inf(1)}
		if rapid.Bool().Draw(t, "kept") {
			l.Move = math.Inf(1)
		}
		if rapid.IntRange(0, 3).Draw(t, "lower") == 0 {
			l.Leave = float64(rapid.IntRange(0, 20).Draw(t, "leave"))
		}
		losses = append(losses, l)
	}
	return p, losses
}

// holds reports whether an assignment keeps every constraint.
func holds(p *placement.Problem, at placement.Assignment) bool {
	for i, m := range at {
		if slices.Contains(p.Apps[p.Instances[i].App].Barred, m) {
			return false
		}
	}
	r, err := placement.Verify(p, at)
	return err == nil && len(r.Violations) == 0
}

// leastLoss returns the minimum loss over all ways to place instance 0, or +Inf if there is none. Each running
// instance may stay, move or wait.
func leastLoss(p *placement.Problem, losses []placement.Loss) float64 {
	best := math.Inf(1)
	for host := range p.Machines {
		at := p.Deployed()
		at[0] = int32(host)
		var choose func(i, left int, loss float64)
		choose = func(i, left int, loss float64) {
			if i == len(at) {
				if loss < best && holds(p, at) {
					best = loss
				}
				return
			}
			choose(i+1, left, loss)
			if p.Instances[i].Machine != int32(host) || left == 0 {
				return
			}
			for m := range p.Machines {
				if m != host {
					at[i] = int32(m)
					choose(i+1, left-1, loss+losses[i].Move)
				}
			}
			at[i] = placement.Unplaced
			choose(i+1, left-1, loss+losses[i].Leave)
			at[i] = int32(host)
		}
		choose(1, placement.MaxDisplaced, 0)
	}
	return best
}

// TestMakeRoomMinimisesLoss compares MakeRoom with all possible ways. If there is room, nothing may move. Otherwise,
// the way with the lowest loss must be taken if the loss is below the limit.
func TestMakeRoomMinimisesLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, losses := smallPool(t)
		n, err := placement.New(p, placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		most := float64(rapid.IntRange(1, 25).Draw(t, "most"))
		want := leastLoss(p, losses)
		for range 2 { // the first call must not change anything
			got := n.MakeRoom([]int32{0}, most, func(i int32) placement.Loss { return losses[i] })
			if got == nil {
				if want < most {
					t.Fatalf("no room found, but there is a way with loss %v", want)
				}
				continue
			}
			if got.Loss != want {
				t.Fatalf("the loss is %v, but %v is possible", got.Loss, want)
			}
			at, sum := p.Deployed(), 0.0
			at[0] = got.Machines[0]
			if n := len(got.Moves); n > placement.MaxDisplaced || n > 0 && holds(p, at) {
				t.Fatalf("%d instances leave", n)
			}
			for _, m := range got.Moves {
				if m.From != got.Machines[0] || p.Instances[m.Instance].Machine != m.From {
					t.Fatalf("%+v does not make room on %d", m, got.Machines[0])
				}
				at[m.Instance] = m.To
				if sum += losses[m.Instance].Move; m.To == placement.Unplaced {
					sum += losses[m.Instance].Leave - losses[m.Instance].Move
				}
			}
			if !holds(p, at) || math.Abs(sum-got.Loss) > 1e-9 {
				t.Fatalf("%v: the loss is %v, not %v", at, sum, got.Loss)
			}
		}
	})
}

// The nodes of a gang must get separate machines. Displaced instances may only move to machines that have room now,
// not to a machine that another instance will leave.
func TestMakeRoomForSeveralInstances(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{8}}, {Capacity: []int64{5}}},
		Machines:  []placement.Machine{{Shape: 0}, {Shape: 0}, {Shape: 1}},
		Apps:      []placement.App{{Demand: []int64{6}}, {Demand: []int64{4}}, {Demand: []int64{4}}},
		Instances: []placement.Instance{{Machine: placement.Unplaced}, {Machine: placement.Unplaced},
			{App: 1, Machine: 0}, {App: 2, Machine: 1}},
		Rules: []placement.Rule{{A: 0, B: 0, Max: 1}},
	}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	move := func(int32) placement.Loss { return placement.Loss{Move: 1, Leave: math.Inf(1)} }
	if r := n.MakeRoom([]int32{0, 1}, 10, move); r != nil {
		t.Errorf("a displaced instance has room elsewhere, but got %+v", r)
	}
	p.Machines = append(p.Machines, placement.Machine{Shape: 1})
	if n, err = placement.New(p, placement.Options{}); err != nil {
		t.Fatal(err)
	}
	r := n.MakeRoom([]int32{0, 1}, 10, move)
	if r == nil || r.Loss != 2 || len(r.Moves) != 2 || r.Moves[0].To == r.Moves[1].To || r.Machines[0] == r.Machines[1] {
		t.Errorf("%+v", r)
	}
	if r := n.MakeRoom([]int32{0, 1}, 2, move); r != nil {
		t.Errorf("the loss limit is 2, but got %+v", r)
	}
}

// Two instances are displaced. Neither may use the room that the other one frees.
func TestMakeRoomUsesOnlyFreeRoom(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{12}}, {Capacity: []int64{8}}},
		Machines:  []placement.Machine{{Shape: 0}, {Shape: 1}, {Shape: 1}},
		Apps:      []placement.App{{Demand: []int64{6}}, {Demand: []int64{8}}, {Demand: []int64{4}}},
		Instances: []placement.Instance{{Machine: placement.Unplaced}, {Machine: placement.Unplaced},
			{App: 1, Machine: 0}, {App: 2, Machine: 1}},
		Rules: []placement.Rule{{A: 0, B: 0, Max: 1}},
	}
	p.Apps[0].Barred = []int32{2}
	n, err := placement.New(p, placement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := n.MakeRoom([]int32{0, 1}, 10, func(int32) placement.Loss { return placement.Loss{Move: 1, Leave: math.Inf(1)} })
	if r != nil {
		t.Errorf("%+v", r)
	}
}

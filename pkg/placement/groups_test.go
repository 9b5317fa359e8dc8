package placement_test

import (
	"fmt"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// The first rack has room for only a part of a group, the second has more room than needed, and the third fits
// exactly. The group must be packed into the third.
func TestSolvePacksGroupWhereItFits(t *testing.T) {
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: []int64{4 * placement.Unit}}},
		Apps:      []placement.App{{Name: "a", Demand: []int64{3 * placement.Unit}}},
		Groups:    []placement.Group{{Apps: []int32{0}, By: placement.ByRack}},
	}
	for rack, machines := range []int{2, 5, 3} {
		for range machines {
			p.Machines = append(p.Machines, placement.Machine{Name: fmt.Sprint("m", len(p.Machines)), Rack: rack})
		}
	}
	for i := range 3 {
		p.Instances = append(p.Instances, placement.Instance{Name: fmt.Sprint("i", i), Machine: placement.Unplaced})
	}
	n, err := placement.New(p, placement.Options{Exact: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := n.Solve()
	for i, m := range r.Assignment {
		if m == placement.Unplaced || p.Machines[m].Rack != 2 {
			t.Errorf("instance %d is on machine %d: %v", i, m, r.Assignment)
		}
	}
}

// No rack can hold a whole group. Solve must then place a part of the group in the rack with the most room, and this
// must be fast with very many racks. If all machines are barred, nothing may be placed.
func TestSolvePlacesPartOfOversizedGroup(t *testing.T) {
	const machines, fullRack = 20_000, 1_003
	for _, barred := range []bool{false, true} {
		p := &placement.Problem{
			Resources: []placement.Resource{{Name: "cpu", Points: 1}},
			Shapes:    []placement.Shape{{Capacity: []int64{32 * placement.Unit}}},
			Apps:      []placement.App{{Name: "gang", Demand: []int64{16 * placement.Unit}}},
			Rules:     []placement.Rule{{A: 0, B: 0, Max: 1}},
			Groups:    []placement.Group{{Apps: []int32{0}, By: placement.ByRack}},
		}
		for i := range machines {
			at := i / 4
			if i%4 == 3 && at != fullRack {
				at += machines // racks of three machines and of one
			}
			p.Machines = append(p.Machines, placement.Machine{Name: fmt.Sprint("m", i), Rack: at})
			if barred {
				p.Apps[0].Barred = append(p.Apps[0].Barred, int32(i)) //nolint:gosec // few
			}
		}
		for range 5 {
			p.Instances = append(p.Instances, placement.Instance{Machine: placement.Unplaced})
		}
		n, err := placement.New(p, placement.Options{Exact: -1})
		if err != nil {
			t.Fatal(err)
		}
		placed := 0
		for i, m := range n.Solve().Assignment {
			switch {
			case m == placement.Unplaced:
			case barred || p.Machines[m].Rack != fullRack:
				t.Errorf("instance %d is on machine %d, barred: %v", i, m, barred)
			default:
				placed++
			}
		}
		if want := 4; !barred && placed != want {
			t.Errorf("%d are placed, not %d", placed, want)
		}
	}
}

package placement_test

import (
	"fmt"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// TestAGroupIsPackedWhereAllOfItFits: the first rack has room for a part of it alone, the second is larger than it has
// to be, the third is just right.
func TestAGroupIsPackedWhereAllOfItFits(t *testing.T) {
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

package placement_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Two databases must not share a machine. An urgent web server needs one of the two machines of four CPUs.
func ExampleNetwork_Solve() {
	cpus := func(n int64) []int64 { return []int64{n * placement.Unit} }
	n, err := placement.New(&placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: cpus(4)}},
		Machines:  []placement.Machine{{Name: "m0"}, {Name: "m1"}},
		Apps:      []placement.App{{Name: "db", Demand: cpus(3)}, {Name: "web", Demand: cpus(2), Priority: 1}},
		Instances: []placement.Instance{
			{Name: "db-0", App: 0, Machine: 0}, {Name: "db-1", App: 0, Machine: 1},
			{Name: "web-0", App: 1, Machine: placement.Unplaced},
		},
		Rules: []placement.Rule{{A: 0, B: 0, Max: 1}},
	}, placement.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := n.Solve()
	for _, m := range r.Moves {
		fmt.Printf("instance %d: from %d to %d\n", m.Instance, m.From, m.To)
	}
	fmt.Printf("%d placed, %d waiting, optimal: %v\n", r.Placed, r.Waiting, r.Optimal)
	// Output:
	// instance 0: from 0 to -1
	// instance 2: from -1 to 0
	// 2 placed, 1 waiting, optimal: true
}

package pack_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/placement"
	"github.com/tradewind-broker/tradewind/pkg/placement/pack"
)

// Four instances of three CPUs and four of one CPU fill four machines of four CPUs.
func ExamplePack() {
	cpus := func(n int64) []int64 { return []int64{n * placement.Unit} }
	p := &placement.Problem{
		Resources: []placement.Resource{{Name: "cpu", Points: 1}},
		Shapes:    []placement.Shape{{Capacity: cpus(4)}},
		Apps:      []placement.App{{Name: "db", Demand: cpus(3)}, {Name: "log", Demand: cpus(1)}},
	}
	for i := range 8 {
		p.Machines = append(p.Machines, placement.Machine{Name: fmt.Sprint("m", i)})
		p.Instances = append(p.Instances, placement.Instance{App: int32(i % 2), Machine: placement.Unplaced})
	}
	r, err := pack.Pack(p, pack.Options{Steps: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d instances on %d machines\n", r.Placed, r.Machines)
	// Output: 8 instances on 4 machines
}

package placement

import (
	"math"
	"slices"
)

// LowerBound returns a number of machines that every assignment of all instances needs. At each point of each
// resource it counts the machines with the largest capacity until they hold the total demand. It also respects each
// app's own limit for one machine. If the machines cannot hold all instances, the bound is larger than their number.
func LowerBound(p *Problem) int {
	if len(p.Instances) == 0 {
		return 0
	}
	total := make([]float64, p.Dims())
	perApp := make([]int, len(p.Apps))
	for _, in := range p.Instances {
		perApp[in.App]++
	}
	for app, n := range perApp {
		if n == 0 {
			continue
		}
		for d, x := range p.Apps[app].Demand {
			total[d] += float64(x) * float64(n)
		}
	}
	shape := make([]int, len(p.Shapes))
	for _, m := range p.Machines {
		shape[m.Shape]++
	}
	bound := 1
	for app, limit := range NewLimits(p).Self {
		if limit > 0 {
			bound = max(bound, (perApp[app]+int(limit)-1)/int(limit))
		}
	}
	for d, t := range total {
		bound = max(bound, machinesFor(p, shape, d, t))
	}
	return bound
}

// machinesFor returns how many machines, largest first, hold a demand at one point.
func machinesFor(p *Problem, perShape []int, d int, demand float64) int {
	const tolerance = 1 - 1e-12 // rounding errors of float sums must not add a machine
	demand *= tolerance
	if demand <= 0 {
		return 0
	}
	order := make([]int, len(p.Shapes))
	for s := range order {
		order[s] = s
	}
	slices.SortFunc(order, func(a, b int) int {
		return int(max(-1, min(1, p.Shapes[b].Capacity[d]-p.Shapes[a].Capacity[d])))
	})
	n := 0
	for _, s := range order {
		c := float64(p.Shapes[s].Capacity[d])
		if c > 0 && demand <= c*float64(perShape[s]) {
			return n + int(math.Ceil(demand/c))
		}
		n += perShape[s]
		demand -= c * float64(perShape[s])
	}
	return n + 1
}

package baseline

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/placement/tally"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// cluster is a set of machines to fill, largest first.
type cluster struct {
	p           *placement.Problem
	limits      *placement.Limits
	dims        int
	machines    []int32 // machine numbers of the problem
	free        []int64 // by position in machines
	held        []tally.Counts
	at          placement.Assignment
	instancesOf [][]int32 // instances of each app
	scale       []float64 // reciprocal of the largest capacity, for each point
	size        []float64 // for each app: the largest part of a machine that it needs
}

func newCluster(p *placement.Problem) *cluster {
	c := &cluster{
		p: p, limits: placement.NewLimits(p), dims: p.Dims(), held: make([]tally.Counts, len(p.Machines)),
		at: make(placement.Assignment, len(p.Instances)), instancesOf: make([][]int32, len(p.Apps)),
	}
	for i, in := range p.Instances {
		c.at[i] = placement.Unplaced
		c.instancesOf[in.App] = append(c.instancesOf[in.App], int32(i)) //nolint:gosec // rows in memory
	}
	c.scale = make([]float64, c.dims)
	for _, s := range p.Shapes {
		for d, x := range s.Capacity {
			c.scale[d] = max(c.scale[d], float64(x))
		}
	}
	for d, x := range c.scale {
		if x == 0 {
			x = math.Inf(1)
		}
		c.scale[d] = 1 / x
	}
	for _, a := range p.Apps {
		c.size = append(c.size, c.largest(a.Demand))
	}
	for i := range p.Machines {
		c.machines = append(c.machines, int32(i)) //nolint:gosec // machines in memory
	}
	worth := make([]float64, len(p.Shapes))
	for s := range p.Shapes {
		for d, x := range p.Shapes[s].Capacity {
			worth[s] += float64(x) * c.scale[d]
		}
	}
	slices.SortStableFunc(c.machines, func(a, b int32) int {
		return cmp.Compare(worth[p.Machines[b].Shape], worth[p.Machines[a].Shape])
	})
	for _, m := range c.machines {
		c.free = append(c.free, p.Shapes[p.Machines[m].Shape].Capacity...)
	}
	return c
}

// largest returns the largest part of a machine that a vector needs at any point.
func (c *cluster) largest(v []int64) float64 {
	most := 0.0
	for d, x := range v {
		most = max(most, float64(x)*c.scale[d])
	}
	return most
}

// decreasing returns the apps by size, largest first.
func (c *cluster) decreasing() []int32 {
	var apps []int32
	for a := range c.instancesOf {
		if len(c.instancesOf[a]) > 0 {
			apps = append(apps, int32(a)) //nolint:gosec // apps in memory
		}
	}
	slices.SortStableFunc(apps, func(a, b int32) int { return cmp.Compare(c.size[b], c.size[a]) })
	return apps
}

func (c *cluster) freeOf(k int) []int64 {
	return c.free[k*c.dims : (k+1)*c.dims : (k+1)*c.dims]
}

func (c *cluster) fits(k int, a int32) bool { return c.holds(k, a) && c.clashes(k, a) == 0 }

// holds reports whether there is room, regardless of rules.
func (c *cluster) holds(k int, a int32) bool {
	free := c.freeOf(k)
	for d, x := range c.p.Apps[a].Demand {
		if x > free[d] {
			return false
		}
	}
	return true
}

// clashes returns how many rules one more instance of an app would break.
func (c *cluster) clashes(k int, a int32) int {
	held, n := &c.held[k], 0
	self := held.Get(a) + 1
	if self > c.limits.Self[a] {
		n++
	}
	for _, p := range c.limits.Partners[a] {
		if other := held.Get(p.App); other > 0 && (other > p.Other || self > p.Self) {
			n++
		}
	}
	return n
}

func (c *cluster) put(k int, i int32) {
	a := c.p.Instances[i].App
	free := c.freeOf(k)
	for d, x := range c.p.Apps[a].Demand {
		free[d] -= x
	}
	c.held[k].Add(a, 1)
	c.at[i] = c.machines[k]
}

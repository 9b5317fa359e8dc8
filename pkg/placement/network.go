package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/placement/tally"
)

// Options limit a Network's search.
type Options struct {
	// Depth is the maximum length of a chain of migrations: how many instances in a row may push another to get a
	// place (the paper's depth limiting). 0 means DefaultDepth, a negative value none.
	Depth int
	// Width is the number of machines, those that lack the least room, that each search for migrations examines. 0
	// means 24.
	Width int
	// Exact is the maximum number of nodes of an optimality proof for a small problem with unplaced instances. 0
	// means 200,000, a negative value no proof.
	Exact int
	// Compact spends more time to use fewer machines, if there is room for all: on the order of apps × machines.
	Compact bool
	// Forget makes each search start at the first machine, as if the instances of an app were different. It is used
	// to measure the savings of isomorphism limiting; the result is the same.
	Forget bool
}

// The defaults of Options.
const (
	DefaultDepth = 2
	defaultWidth = 24
	defaultExact = 200_000
)

// rackSize is the size of artificial racks, which are used if the problem has only one rack. Like real racks they let
// the search skip many machines at once.
const rackSize = 512

// Network is the flow network of the paper's section III.A: instances T, apps A, clusters G, racks R and machines N.
// An edge T→A is a waiting instance. An edge N→t is a machine's free capacity vector with its blacklist. An edge A→R
// records which machines of the rack the app can skip. So there are |T| + |A||R| + |N| edges instead of |T||N|.
//
// The network keeps the flow, so that after a change it searches only for the instances that are not placed. It is
// not safe for concurrent use.
type Network struct {
	p      *Problem
	o      Options
	limits *Limits
	places *places
	dims   int

	free    []int64 // free capacity of each machine, dims values each
	on      [][]int32
	held    []tally.Counts
	at      Assignment
	waiting [][]int32 // waiting instances of each app, in order of arrival
	removed []bool    // removed instances

	racks  []rack
	rackOf []int32
	inRow  []int32          // position of each machine in its rack
	rackNo map[[2]int]int32 // rack by cluster and number
	edges  [][]edge         // of each app, by rack; created at first use
	order  []int32          // apps, hardest to place first; created at first use
	epoch  uint32           // changes whenever capacity is freed on any machine

	journal []step
	space   scratch
	looks   int // remaining machines that searches for migrations may examine in this Solve
}

// rack is a vertex R.
type rack struct {
	cluster  int
	machines []int32
	most     []int64 // upper bound of the free capacity of a machine, at each point
	blocks   []int64 // the same for each block of machines
	epoch    uint32  // changes when capacity is freed in the rack
}

// edge is an edge A→R. All instances of an app are alike (the paper's isomorphism limiting): if one found no room,
// the next need not search until capacity is freed.
type edge struct {
	epoch uint32
	next  int32 // machines of the rack before this one have no room for the app
}

// step is a change that can be undone.
type step struct{ instance, from, to int32 }

// New creates the network of a problem. Instances stay on their current machines unless this breaks a constraint;
// such an instance waits. Errors wrap ErrProblem.
func New(p *Problem, o Options) (*Network, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	o.Depth, o.Width, o.Exact = orElse(o.Depth, DefaultDepth), orElse(o.Width, defaultWidth),
		orElse(o.Exact, defaultExact)
	own := *p
	own.Machines, own.Apps, own.Instances = slices.Clone(p.Machines), slices.Clone(p.Apps), slices.Clone(p.Instances)
	own.Rules, own.Shapes = slices.Clone(p.Rules), slices.Clone(p.Shapes)
	n := &Network{p: &own, o: o, limits: NewLimits(p), places: newPlaces(p), dims: p.Dims(),
		rackNo: map[[2]int]int32{}, epoch: 1}
	n.space = newScratch(n.dims)
	n.waiting, n.edges = make([][]int32, len(p.Apps)), make([][]edge, len(p.Apps))
	racked := slices.ContainsFunc(p.Machines, func(m Machine) bool { return m.Rack != 0 || m.Cluster != 0 })
	for i := range own.Machines {
		n.join(int32(i), racked) //nolint:gosec // machines in memory
	}
	n.at, n.removed = make(Assignment, len(own.Instances)), make([]bool, len(own.Instances))
	for i, in := range own.Instances {
		n.at[i] = Unplaced
		if in.Machine == Unplaced || !n.fits(in.Machine, in.App) {
			n.waiting[in.App] = append(n.waiting[in.App], int32(i)) //nolint:gosec // rows in memory
			continue
		}
		n.put(int32(i), in.Machine) //nolint:gosec // rows in memory
	}
	return n, nil
}

func orElse(x, otherwise int) int {
	if x == 0 {
		return otherwise
	}
	return max(x, 0)
}

// Edges is the number of edges of the network, |T| + |A||R| + |N| (section III.A).
func (n *Network) Edges() int {
	return len(n.p.Instances) + len(n.p.Apps)*len(n.racks) + len(n.p.Machines)
}

// join adds the vertex of a machine of the problem.
func (n *Network) join(m int32, racked bool) {
	machine := n.p.Machines[m]
	n.free = append(n.free, n.p.Shapes[machine.Shape].Capacity...)
	n.on, n.held = append(n.on, nil), append(n.held, tally.Counts{})
	key := [2]int{machine.Cluster, machine.Rack}
	if !racked {
		key[1] = int(m) / rackSize
	}
	r, known := n.rackNo[key]
	if !known {
		r = int32(len(n.racks)) //nolint:gosec // machines in memory
		n.rackNo[key] = r
		n.racks = append(n.racks, rack{cluster: machine.Cluster, most: make([]int64, n.dims), epoch: 1})
	}
	n.rackOf = append(n.rackOf, r)
	rack := &n.racks[r]
	if len(rack.machines)%blockSize == 0 {
		rack.blocks = append(rack.blocks, make([]int64, n.dims)...)
	}
	n.inRow = append(n.inRow, int32(len(rack.machines))) //nolint:gosec // machines in memory
	rack.machines = append(rack.machines, m)
	n.freed(m)
}

// freed informs the rack of a machine that capacity was freed on it.
func (n *Network) freed(m int32) {
	r := &n.racks[n.rackOf[m]]
	r.epoch++
	n.epoch++
	block := r.block(int(n.inRow[m])/blockSize, n.dims)
	for d, x := range n.freeOf(m) {
		r.most[d], block[d] = max(r.most[d], x), max(block[d], x)
	}
}

func (n *Network) freeOf(m int32) []int64 {
	i := int(m) * n.dims
	return n.free[i : i+n.dims : i+n.dims]
}

// fits reports whether an instance of an app can be put on a machine: its demand is within the free capacity
// (equation 6) and it is not on the machine's blacklist (equations 7 and 8).
func (n *Network) fits(m, app int32) bool {
	return within(n.p.Apps[app].Demand, n.freeOf(m)) && n.allows(m, app)
}

func within(need, free []int64) bool {
	free = free[:len(need)]
	for d, x := range need {
		if x > free[d] {
			return false
		}
	}
	return true
}

func (n *Network) allows(m, app int32) bool {
	if n.places != nil && !n.places.allows(m, app) {
		return false
	}
	held := &n.held[m]
	self := held.Get(app) + 1
	if self > n.limits.Self[app] {
		return false
	}
	for _, p := range n.limits.Partners[app] {
		if other := held.Get(p.App); other > 0 && (other > p.Other || self > p.Self) {
			return false
		}
	}
	return true
}

// put routes the flow of an instance through a machine.
func (n *Network) put(i, m int32) {
	app := n.p.Instances[i].App
	free := n.freeOf(m)
	for d, x := range n.p.Apps[app].Demand {
		free[d] -= x
	}
	n.held[m].Add(app, 1)
	if n.places != nil {
		n.places.add(m, app, 1)
	}
	n.on[m] = append(n.on[m], i)
	n.at[i] = m
}

// take removes the flow of an instance from its machine.
func (n *Network) take(i int32) {
	m, app := n.at[i], n.p.Instances[i].App
	free := n.freeOf(m)
	for d, x := range n.p.Apps[app].Demand {
		free[d] += x
	}
	n.held[m].Add(app, -1)
	if n.places != nil {
		n.places.add(m, app, -1)
	}
	at := slices.Index(n.on[m], i)
	n.on[m] = slices.Delete(n.on[m], at, at+1)
	n.at[i] = Unplaced
}

// move moves an instance and records it in the journal, so that undo can reverse it.
func (n *Network) move(i, to int32) {
	from := n.at[i]
	if from != Unplaced {
		n.take(i)
	}
	if to != Unplaced {
		n.put(i, to)
	}
	n.journal = append(n.journal, step{i, from, to})
}

// undo reverses the moves since the journal had the length mark.
func (n *Network) undo(mark int) {
	for len(n.journal) > mark {
		s := n.journal[len(n.journal)-1]
		n.journal = n.journal[:len(n.journal)-1]
		if s.to != Unplaced {
			n.take(s.instance)
		}
		if s.from != Unplaced {
			n.put(s.instance, s.from)
		}
	}
}

// sorted returns the apps in packing order, hardest to place first: larger apps, and apps whose rules exclude more
// instances.
func (n *Network) sorted() []int32 {
	if n.order != nil {
		return n.order
	}
	hard := n.hardness()
	for a := range n.p.Apps {
		n.order = append(n.order, int32(a)) //nolint:gosec // apps in memory
	}
	slices.SortStableFunc(n.order, func(a, b int32) int { return cmp.Compare(hard[b], hard[a]) })
	return n.order
}

// hardness returns, for each app, the largest part of a machine that an instance needs, plus the share of all
// instances that it has itself or that its rules exclude.
func (n *Network) hardness() []float64 {
	count := make([]int, len(n.p.Apps))
	for _, in := range n.p.Instances {
		count[in.App]++
	}
	hard := make([]float64, len(n.p.Apps))
	scale := n.typical()
	for a := range n.p.Apps {
		for d, x := range n.p.Apps[a].Demand {
			hard[a] = max(hard[a], float64(x)*scale[d])
		}
		enemies := 0
		for _, p := range n.limits.Partners[a] {
			enemies += count[p.App]
		}
		all := float64(1 + len(n.p.Instances))
		hard[a] += float64(count[a]) / all // separate instances need as many machines
		if share := float64(enemies) / all; share > few {
			hard[a] += share
		}
	}
	return hard
}

// few is the share of all instances below which the excluded instances do not count.
const few = 0.01

// typical returns, for each point, the reciprocal of the largest machine's capacity.
func (n *Network) typical() []float64 {
	scale := make([]float64, n.dims)
	for _, s := range n.p.Shapes {
		for d, x := range s.Capacity {
			scale[d] = max(scale[d], float64(x))
		}
	}
	for d := range scale {
		if scale[d] == 0 {
			scale[d] = math.Inf(1)
		}
		scale[d] = 1 / scale[d]
	}
	return scale
}

// RemoveInstance removes an instance from its machine or from the waiting instances.
func (n *Network) RemoveInstance(i int32) error {
	if i < 0 || int(i) >= len(n.at) || n.removed[i] {
		return fmt.Errorf("%w: instance %d does not exist", ErrProblem, i)
	}
	if m := n.at[i]; m != Unplaced {
		n.take(i)
		n.freed(m)
	} else {
		app := n.p.Instances[i].App
		n.waiting[app] = remove(n.waiting[app], i)
	}
	n.removed[i] = true
	return nil
}

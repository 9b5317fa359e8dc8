package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/placement/internal/tally"
)

// Options are the limits of a Network's search.
type Options struct {
	// Depth is how many instances in a row one may push on to another machine to
	// get its place (the paper's depth limiting). 0 is DefaultDepth, below 0 none.
	Depth int
	// Width is of how many machines, those that lack least, a search for migrations looks at each. 0 is DefaultWidth.
	Width int
	// Exact is how many nodes a proof may take when a small problem has instances left over. 0 is DefaultExact,
	// below 0 none.
	Exact int
}

// The limits that an Options of zeros means.
const (
	DefaultDepth = 2
	DefaultWidth = 24
	DefaultExact = 200_000
)

// rackSize is into how large racks machines are put when a problem has one rack only: the vertices R then do for
// the search what real racks do, they rule out many machines at once.
const rackSize = 512

// Network is the flow network of the paper's section III.A: instances T, apps A,
// clusters G, racks R and machines N. An edge T→A is an instance that waits, N→t a
// machine's free vector with its blacklist; an edge A→R knows how much of the rack
// the app need not look at any more. That makes |T| + |A||R| + |N| edges in place of |T||N|.
//
// It keeps the flow, so that after a change only what is not placed is searched
// for. It is not safe for concurrent use.
type Network struct {
	p      *Problem
	o      Options
	limits *Limits
	places *places
	dims   int

	free    []int64 // of each machine, dims long
	on      [][]int32
	held    []tally.Counts
	at      Assignment
	waiting [][]int32 // instances of each app without a machine, in the order in which they came
	left    []bool    // instances that were taken away

	racks  []rack
	rackOf []int32
	inRow  []int32          // position of each machine in its rack
	rackNo map[[2]int]int32 // rack of cluster and number, where the problem has racks
	edges  [][]edge         // of each app, by rack; made when first used
	order  []int32          // apps, the hardest to place first; made when first used
	epoch  uint32           // changes whenever anything is freed anywhere

	journal []step
	space   scratch
	looks   int // at machines that searches for migrations have left in this Solve
}

// rack is a vertex R.
type rack struct {
	cluster  int
	machines []int32
	most     []int64 // at least what the machine with most free has, at each point
	blocks   []int64 // the same for each block of machines
	epoch    uint32  // changes when something is freed in it
}

// edge is an edge A→R. Instances of an app are all alike (the paper's isomorphism limiting): where one found no room
// the next need not look, until something is freed.
type edge struct {
	epoch uint32
	next  int32 // machines of the rack before this one are known to refuse the app
}

// step is a change that can be undone.
type step struct{ instance, from, to int32 }

// New makes the network of a problem. Where instances are already is kept as long
// as it breaks no constraint; one that cannot be where it is, beside those before it, waits. An error wraps ErrProblem.
func New(p *Problem, o Options) (*Network, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	o.Depth, o.Width, o.Exact = orElse(o.Depth, DefaultDepth), orElse(o.Width, DefaultWidth),
		orElse(o.Exact, DefaultExact)
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
	n.at, n.left = make(Assignment, len(own.Instances)), make([]bool, len(own.Instances))
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

// join adds the vertex of a machine that the problem holds already.
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

// freed tells the rack of a machine that there is more free on it.
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

// fits says whether one of an app can be put on a machine: its demand is within what is free (equation 6) and it is not
// on the machine's blacklist (equations 7 and 8).
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
	if n.places != nil && !n.places.allow(m, app) {
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

// take takes the flow of an instance back.
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

// move changes where an instance is, so that undo can change it back.
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

// undo takes back what was done since the journal was as long as mark.
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

// sorted is the apps in the order in which they pack best: what is harder to place first, since it is larger or its
// rules keep more instances away from it.
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

// hardness is the largest part of a machine that an app needs, and the part of all instances that it has or its rules
// keep away.
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
		hard[a] += float64(count[a]) / all // where rules keep them apart they need as many machines
		if share := float64(enemies) / all; share > few {
			hard[a] += share
		}
	}
	return hard
}

// few is the share of all instances below which an app's enemies do not make it hard to place.
const few = 0.01

// typical is for each point one part of what the largest machine has.
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

// RemoveInstance takes an instance away, from its machine or from those that wait.
func (n *Network) RemoveInstance(i int32) error {
	if i < 0 || int(i) >= len(n.at) || n.left[i] {
		return fmt.Errorf("%w: there is no instance %d", ErrProblem, i)
	}
	if m := n.at[i]; m != Unplaced {
		n.take(i)
		n.freed(m)
	} else {
		app := n.p.Instances[i].App
		n.waiting[app] = remove(n.waiting[app], i)
	}
	n.left[i] = true
	return nil
}

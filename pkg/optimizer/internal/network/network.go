// Package network is the cost network of tasks over places: the sum of the costs of options and transfers, the bounds
// that message passing gives (soft local consistency), and the plans that these suggest.
package network

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Network is a weighted constraint network: choose a value for every node so
// that
//
//	base + Σ reduced(value) + Σ residual(pair of values)
//
// is minimal. Its nodes are tasks, its values are options, and its pairs are data transfers, whose cost depends only
// on places. All terms except base are kept at or above zero. So base is always a lower bound, and base + reduced(a)
// is one for every solution with value a. Moving cost between the terms without changing any sum (soft local
// consistency: Cooper et al., Soft arc consistency revisited, 2010) raises base; see dual.go.
type Network struct {
	Base  float64
	Nodes []Node
	Pairs []Pair
	// trail lists eliminated nodes, latest first. Their best values follow from those of the remaining nodes.
	trail *trail
	slab  slab
}

// slab allocates small zeroed slices from a large one, which saves work for the garbage collector. They are not freed
// individually.
type slab struct {
	free []float64
}

func (s *slab) take(n int) []float64 {
	if n > len(s.free) {
		s.free = make([]float64, max(n, 2048))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Node is a task with its remaining values.
type Node struct {
	Task int32
	Gone bool
	// Values are the possible options, as rising indices into the task's options. The slice is replaced, never
	// changed.
	Values []int32
	// Reduced is the part of each value's cost that is not in pairs. +Inf marks an excluded value that has not been
	// compacted away yet.
	Reduced []float64
	// Left is the number of values that are not excluded.
	Left int32
	// Adj are the existing pairs of this node.
	Adj []int32
}

// Pair is the cost between the values of nodes u and v:
//
//	residual(a, b) = Scale·Table[a][b] + More·Second[a][b] − ToU[a] − ToV[b]
//
// ToU and ToV are the costs that were moved from the pair to the two nodes.
type Pair struct {
	U, V int32
	gone bool
	Matrices
	ToU, ToV []float64
}

// Matrices are the costs of a pair: a table, row-major over the values of one node and the other, and possibly a
// second one. Pairs may share tables. If there is only one table, its transpose may be missing.
type Matrices struct {
	Table, Transposed   []float64
	Scale               float64
	Second, SecondTrans []float64
	More                float64
}

// flipped returns the same matrices as seen from the other node.
func (m Matrices) flipped() Matrices {
	m.Table, m.Transposed = m.Transposed, m.Table
	m.Second, m.SecondTrans = m.SecondTrans, m.Second
	return m
}

// Side is a pair as seen from one of its nodes, called self; the other is the peer. The rows of its matrices are
// self's values. If Table is nil, only Transposed exists.
type Side struct {
	self, Peer     int32
	ToSelf, ToPeer []float64
	Matrices
}

// Side returns pair e as seen from node self.
func (n *Network) Side(e, self int32) Side {
	p := &n.Pairs[e]
	if p.U == self {
		return Side{self: p.U, Peer: p.V, ToSelf: p.ToU, ToPeer: p.ToV, Matrices: p.Matrices}
	}
	return Side{self: p.V, Peer: p.U, ToSelf: p.ToV, ToPeer: p.ToU, Matrices: p.flipped()}
}

// Reversed returns the same pair as seen from the peer.
func (s *Side) Reversed() Side {
	return Side{self: s.Peer, Peer: s.self, ToSelf: s.ToPeer, ToPeer: s.ToSelf, Matrices: s.flipped()}
}

// At returns residual(a, b) for value a of u and b of v.
func (p *Pair) At(a, b int32) float64 {
	i := int(a)*len(p.ToV) + int(b)
	x := p.Scale * p.Table[i]
	if p.Second != nil {
		x += p.More * p.Second[i]
	}
	return x - p.ToU[a] - p.ToV[b]
}

// At returns residual(a, b) for value a of self and b of the peer.
func (s *Side) At(a, b int) float64 {
	var x float64
	if s.Table != nil {
		x = s.Scale * s.Table[a*len(s.ToPeer)+b]
	} else {
		x = s.Scale * s.Transposed[b*len(s.ToSelf)+a]
	}
	if s.Second != nil {
		x += s.More * s.Second[a*len(s.ToPeer)+b]
	}
	return x - s.ToSelf[a] - s.ToPeer[b]
}

// AddRow adds residual(a, ·) for value a of self to dst, over the peer's values.
func (s *Side) AddRow(dst []float64, a int) {
	taken := s.ToSelf[a]
	toPeer := s.ToPeer[:len(dst)]
	if s.Second != nil {
		for b, x := range s.Second[a*len(dst):][:len(dst)] {
			dst[b] += s.More * x
		}
	}
	if s.Table != nil {
		row := s.Table[a*len(dst):][:len(dst)]
		for b := range dst {
			dst[b] += s.Scale*row[b] - taken - toPeer[b]
		}
		return
	}
	stride := len(s.ToSelf)
	for b := range dst {
		dst[b] += s.Scale*s.Transposed[b*stride+a] - taken - toPeer[b]
	}
}

// Residuals returns the residual table with self's values as rows.
func (s *Side) Residuals() []float64 {
	rows, cols := len(s.ToSelf), len(s.ToPeer)
	out := make([]float64, rows*cols)
	for a := range rows {
		s.AddRow(out[a*cols:(a+1)*cols], a)
	}
	return out
}

// New builds the cost network of the given tasks. Their order becomes the node order. alive marks the options that
// are still possible. local is scratch space for a task's node number.
//
// Transfer prices depend only on places. If most tasks can run in most places, every pair refers to the one matrix of
// prices, scaled by its GiB, and a node's values are all the places, with those without an option excluded. A
// separate table for each pair is created only if few values are left.
func New(inst *problem.Instance, tasks, local []int32, alive []bool) *Network {
	n := &Network{Nodes: make([]Node, len(tasks))}
	total := 0
	for i, t := range tasks {
		local[t] = int32(i) // #nosec G115 -- at most MaxTasks
		for o := inst.First[t]; o < inst.First[t+1]; o++ {
			if alive[o] {
				total++
			}
		}
	}
	dense := 2*total >= inst.NPlace*len(tasks)
	for i, t := range tasks {
		if dense {
			n.Nodes[i] = denseNode(inst, t, alive)
		} else {
			n.Nodes[i] = sparseNode(inst, t, alive)
		}
	}
	for _, t := range tasks {
		for _, e := range inst.Out.Of(t) {
			l := &inst.Edges[e]
			if l.SumGiB == 0 {
				continue
			}
			u, v := local[l.From], local[l.To]
			if dense {
				n.Connect(u, v, inst.USD)
				p := &n.Pairs[len(n.Pairs)-1]
				p.Transposed, p.Scale = inst.USDT, l.SumGiB
			} else {
				n.Connect(u, v, priceTable(inst, &n.Nodes[u], &n.Nodes[v], l))
			}
		}
	}
	return n
}

func sparseNode(inst *problem.Instance, t int32, alive []bool) Node {
	opts := inst.Options(t)
	nd := Node{Task: t}
	for k := range opts {
		if alive[int(inst.First[t])+k] {
			nd.Values = append(nd.Values, int32(k)) // #nosec G115 -- at most MaxCandidates
			nd.Reduced = append(nd.Reduced, opts[k].USD)
			nd.Left++
		}
	}
	return nd
}

func denseNode(inst *problem.Instance, t int32, alive []bool) Node {
	nd := Node{Task: t, Values: make([]int32, inst.NPlace), Reduced: make([]float64, inst.NPlace)}
	for p := range nd.Reduced {
		nd.Values[p], nd.Reduced[p] = -1, search.Inf
	}
	for k, o := range inst.Options(t) {
		if alive[int(inst.First[t])+k] {
			nd.Values[o.Place], nd.Reduced[o.Place] = int32(k), o.USD // #nosec G115 -- at most MaxCandidates
			nd.Left++
		}
	}
	return nd
}

// priceTable returns the transfer cost of a link over the values of its ends.
func priceTable(inst *problem.Instance, from, to *Node, l *problem.Link) []float64 {
	src, dst := inst.Options(l.From), inst.Options(l.To)
	table := make([]float64, len(from.Values)*len(to.Values))
	for a, k := range from.Values {
		prices := inst.USD[int(src[k].Place)*inst.NPlace:][:inst.NPlace]
		row := table[a*len(to.Values):][:len(to.Values)]
		for b, j := range to.Values {
			row[b] = l.SumGiB * prices[dst[j].Place]
		}
	}
	return table
}

// Connect adds a pair with the given table between nodes u and v.
func (n *Network) Connect(u, v int32, table []float64) {
	e := int32(len(n.Pairs)) // #nosec G115 -- at most MaxEdges
	n.Pairs = append(n.Pairs, Pair{
		U: u, V: v, Matrices: Matrices{Table: table, Scale: 1},
		ToU: n.slab.take(len(n.Nodes[u].Values)),
		ToV: n.slab.take(len(n.Nodes[v].Values)),
	})
	n.Nodes[u].Adj = append(n.Nodes[u].Adj, e)
	n.Nodes[v].Adj = append(n.Nodes[v].Adj, e)
}

// Disconnect removes pair e from the lists of both its nodes.
func (n *Network) Disconnect(e int32) {
	p := &n.Pairs[e]
	p.gone = true
	for _, i := range [2]int32{p.U, p.V} {
		nd := &n.Nodes[i]
		k := slices.Index(nd.Adj, e)
		nd.Adj = slices.Delete(nd.Adj, k, k+1)
	}
}

// Between returns the pair that connects u and v, or -1.
func (n *Network) Between(u, v int32) int32 {
	if len(n.Nodes[u].Adj) > len(n.Nodes[v].Adj) {
		u, v = v, u
	}
	for _, e := range n.Nodes[u].Adj {
		if p := &n.Pairs[e]; p.U == v || p.V == v {
			return e
		}
	}
	return -1
}

// Clone copies the parts that may change later, and shares the others.
func (n *Network) Clone() *Network {
	c := &Network{Base: n.Base, Nodes: slices.Clone(n.Nodes), Pairs: slices.Clone(n.Pairs), trail: n.trail}
	for i := range c.Nodes {
		nd := &c.Nodes[i]
		if nd.Gone {
			continue
		}
		nd.Reduced = slices.Clone(nd.Reduced)
		nd.Adj = slices.Clone(nd.Adj)
	}
	for e := range c.Pairs {
		if p := &c.Pairs[e]; !p.gone {
			p.ToU, p.ToV = slices.Clone(p.ToU), slices.Clone(p.ToV)
		}
	}
	return c
}

// Compact returns the network without removed nodes, removed pairs and excluded values. Costs moved out of a pair's
// table are subtracted from it.
func (n *Network) Compact() *Network {
	c := &Network{Base: n.Base, trail: n.trail}
	c.Nodes = make([]Node, 0, len(n.Nodes))
	c.Pairs = make([]Pair, 0, len(n.Pairs))
	renumber := make([]int32, len(n.Nodes))
	kept := make([][]int32, len(n.Nodes))
	for i := range n.Nodes {
		if n.Nodes[i].Gone {
			continue
		}
		renumber[i] = int32(len(c.Nodes)) // #nosec G115 -- at most MaxTasks
		var nd Node
		nd, kept[i] = n.Nodes[i].compact(c)
		c.Nodes = append(c.Nodes, nd)
	}
	for e := range n.Pairs {
		p := &n.Pairs[e]
		if p.gone {
			continue
		}
		rows, cols := kept[p.U], kept[p.V]
		table := c.slab.take(len(rows) * len(cols))[:0]
		width := len(p.ToV)
		for _, a := range rows {
			row, taken := p.Table[int(a)*width:][:width], p.ToU[a]
			for _, b := range cols {
				table = append(table, p.Scale*row[b]-taken-p.ToV[b])
			}
		}
		c.Connect(renumber[p.U], renumber[p.V], table)
	}
	return c
}

// compact returns the node without excluded values, and the indices of the remaining ones.
func (nd *Node) compact(n *Network) (c Node, kept []int32) {
	k := int(nd.Left)
	ints := make([]int32, 2*k+len(nd.Adj))
	c = Node{
		Task: nd.Task, Left: nd.Left, Values: ints[:0:k], Reduced: n.slab.take(k)[:0],
		Adj: ints[2*k : 2*k : 2*k+len(nd.Adj)],
	}
	kept = ints[k : k : 2*k]
	for a, r := range nd.Reduced {
		if r < search.Inf {
			c.Values = append(c.Values, nd.Values[a])
			c.Reduced = append(c.Reduced, r)
			kept = append(kept, int32(a)) // #nosec G115 -- at most MaxCandidates
		}
	}
	return c, kept
}

// Cheapest returns the value with the lowest reduced cost.
func (nd *Node) Cheapest() int {
	best := 0
	for a, r := range nd.Reduced {
		if r < nd.Reduced[best] {
			best = a
		}
	}
	return best
}

// Take excludes all values of the node except a.
func (nd *Node) Take(a int) {
	for b := range nd.Reduced {
		if b != a {
			nd.Reduced[b] = search.Inf
		}
	}
	nd.Left = 1
}

// RunnerUp returns the lowest reduced cost of the node's values other than a.
func (nd *Node) RunnerUp(a int) float64 {
	least := search.Inf
	for b, r := range nd.Reduced {
		if b != a && r < least {
			least = r
		}
	}
	return least
}

// Inherit copies the costs moved out of the pairs from a network with the same nodes and pairs but other values.
func (n *Network) Inherit(old *Network) {
	for e := range n.Pairs {
		p, q := &n.Pairs[e], &old.Pairs[e]
		inheritValues(p.ToU, n.Nodes[p.U].Values, q.ToU, old.Nodes[p.U].Values)
		inheritValues(p.ToV, n.Nodes[p.V].Values, q.ToV, old.Nodes[p.V].Values)
	}
}

func inheritValues(dst []float64, values []int32, src []float64, from []int32) {
	b := 0
	for a, v := range values {
		for b < len(from) && from[b] < v {
			b++
		}
		if b < len(from) && from[b] == v {
			dst[a] = src[b]
		}
	}
}

package optimizer

import "slices"

// network is a weighted constraint network: choose a value for every node so
// that
//
//	base + Σ reduced(value) + Σ residual(pair of values)
//
// is least. Its nodes are tasks, its values options, its pairs data transfers,
// whose cost depends on places alone. All terms but base are kept at or above
// zero, so base is always a lower bound, and base + reduced(a) one for every
// solution that takes value a. Moving cost between the terms without changing
// any sum (soft local consistency: Cooper et al., Soft arc consistency
// revisited, 2010) raises base; see dual.go.
type network struct {
	base  float64
	nodes []node
	pairs []pair
	// trail records eliminated nodes, the latest first; their best values
	// follow from those of the nodes that were left.
	trail *trail
	slab  slab
}

// slab hands out small zeroed slices of one large one, which saves the garbage
// collector work. They are not given back.
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

// node is a task with the values that are left to it.
type node struct {
	task int32
	gone bool
	// values are the options still possible, as indices into the task's
	// options, rising. The slice is never changed, only replaced.
	values []int32
	// reduced is the cost of each value that no pair holds; +Inf marks a
	// value ruled out that has not been compacted away yet.
	reduced []float64
	// left counts the values not ruled out.
	left int32
	// adj are the pairs at this node that are not gone.
	adj []int32
}

// pair is the cost between the values of nodes u and v:
//
//	residual(a, b) = scale·table[a][b] + more·second[a][b] − toU[a] − toV[b]
//
// toU and toV are what has been moved from the pair onto the two nodes.
type pair struct {
	u, v int32
	gone bool
	matrices
	toU, toV []float64
}

// matrices are the costs of a pair: a table, row-major over the values of one
// node and the other, possibly shared between pairs, and possibly a second. The
// transposed tables may be missing where there is only one.
type matrices struct {
	table, transposed   []float64
	scale               float64
	second, secondTrans []float64
	more                float64
}

// flipped is the same seen from the other node.
func (m matrices) flipped() matrices {
	m.table, m.transposed = m.transposed, m.table
	m.second, m.secondTrans = m.secondTrans, m.second
	return m
}

// side is a pair seen from one of its nodes, called self; the other is peer. Its
// matrices have self's values as rows; where table is nil, only transposed is
// there.
type side struct {
	self, peer     int32
	toSelf, toPeer []float64
	matrices
}

func (n *network) side(e, self int32) side {
	p := &n.pairs[e]
	if p.u == self {
		return side{self: p.u, peer: p.v, toSelf: p.toU, toPeer: p.toV, matrices: p.matrices}
	}
	return side{self: p.v, peer: p.u, toSelf: p.toV, toPeer: p.toU, matrices: p.flipped()}
}

// reversed is the same pair seen from the peer.
func (s *side) reversed() side {
	return side{self: s.peer, peer: s.self, toSelf: s.toPeer, toPeer: s.toSelf, matrices: s.flipped()}
}

// at is residual(a, b) for value a of u and b of v.
func (p *pair) at(a, b int32) float64 {
	i := int(a)*len(p.toV) + int(b)
	x := p.scale * p.table[i]
	if p.second != nil {
		x += p.more * p.second[i]
	}
	return x - p.toU[a] - p.toV[b]
}

// at is residual(a, b) for value a of self and b of peer.
func (s *side) at(a, b int) float64 {
	var x float64
	if s.table != nil {
		x = s.scale * s.table[a*len(s.toPeer)+b]
	} else {
		x = s.scale * s.transposed[b*len(s.toSelf)+a]
	}
	if s.second != nil {
		x += s.more * s.second[a*len(s.toPeer)+b]
	}
	return x - s.toSelf[a] - s.toPeer[b]
}

// addRow adds residual(a, ·) for value a of self to dst, over the peer's values.
func (s *side) addRow(dst []float64, a int) {
	taken := s.toSelf[a]
	toPeer := s.toPeer[:len(dst)]
	if s.second != nil {
		for b, x := range s.second[a*len(dst):][:len(dst)] {
			dst[b] += s.more * x
		}
	}
	if s.table != nil {
		row := s.table[a*len(dst):][:len(dst)]
		for b := range dst {
			dst[b] += s.scale*row[b] - taken - toPeer[b]
		}
		return
	}
	stride := len(s.toSelf)
	for b := range dst {
		dst[b] += s.scale*s.transposed[b*stride+a] - taken - toPeer[b]
	}
}

// residuals writes the residual table with self's values as rows.
func (s *side) residuals() []float64 {
	rows, cols := len(s.toSelf), len(s.toPeer)
	out := make([]float64, rows*cols)
	for a := range rows {
		s.addRow(out[a*cols:(a+1)*cols], a)
	}
	return out
}

// newNetwork builds the cost network of the given tasks, in the given order,
// which becomes the node order. alive tells of every option whether it is still
// possible; local is scratch for a task's node number.
//
// Transfer prices depend on places alone, so where most tasks can run in most
// places every pair refers to the one matrix of prices, scaled by its GiB, and
// a node's values are all the places, those without an option ruled out. A table
// for each pair is only made where few values are left.
func newNetwork(inst *instance, tasks, local []int32, alive []bool) *network {
	n := &network{nodes: make([]node, len(tasks))}
	total := 0
	for i, t := range tasks {
		local[t] = int32(i) // #nosec G115 -- at most MaxTasks
		for o := inst.first[t]; o < inst.first[t+1]; o++ {
			if alive[o] {
				total++
			}
		}
	}
	dense := 2*total >= inst.nPlace*len(tasks)
	for i, t := range tasks {
		if dense {
			n.nodes[i] = denseNode(inst, t, alive)
		} else {
			n.nodes[i] = sparseNode(inst, t, alive)
		}
	}
	for _, t := range tasks {
		for _, e := range inst.out.of(t) {
			l := &inst.edges[e]
			if l.sumGiB == 0 {
				continue
			}
			u, v := local[l.from], local[l.to]
			if dense {
				n.connect(u, v, inst.usd)
				p := &n.pairs[len(n.pairs)-1]
				p.transposed, p.scale = inst.usdT, l.sumGiB
			} else {
				n.connect(u, v, priceTable(inst, &n.nodes[u], &n.nodes[v], l))
			}
		}
	}
	return n
}

func sparseNode(inst *instance, t int32, alive []bool) node {
	opts := inst.options(t)
	nd := node{task: t}
	for k := range opts {
		if alive[int(inst.first[t])+k] {
			nd.values = append(nd.values, int32(k)) // #nosec G115 -- at most MaxCandidates
			nd.reduced = append(nd.reduced, opts[k].usd)
			nd.left++
		}
	}
	return nd
}

func denseNode(inst *instance, t int32, alive []bool) node {
	nd := node{task: t, values: make([]int32, inst.nPlace), reduced: make([]float64, inst.nPlace)}
	for p := range nd.reduced {
		nd.values[p], nd.reduced[p] = -1, inf
	}
	for k, o := range inst.options(t) {
		if alive[int(inst.first[t])+k] {
			nd.values[o.place], nd.reduced[o.place] = int32(k), o.usd // #nosec G115 -- at most MaxCandidates
			nd.left++
		}
	}
	return nd
}

// priceTable is the transfer cost of a link over the values of its ends.
func priceTable(inst *instance, from, to *node, l *link) []float64 {
	src, dst := inst.options(l.from), inst.options(l.to)
	table := make([]float64, len(from.values)*len(to.values))
	for a, k := range from.values {
		prices := inst.usd[int(src[k].place)*inst.nPlace:][:inst.nPlace]
		row := table[a*len(to.values):][:len(to.values)]
		for b, j := range to.values {
			row[b] = l.sumGiB * prices[dst[j].place]
		}
	}
	return table
}

// connect adds a pair with the given table between nodes u and v.
func (n *network) connect(u, v int32, table []float64) {
	e := int32(len(n.pairs)) // #nosec G115 -- at most MaxEdges
	n.pairs = append(n.pairs, pair{
		u: u, v: v, matrices: matrices{table: table, scale: 1},
		toU: n.slab.take(len(n.nodes[u].values)),
		toV: n.slab.take(len(n.nodes[v].values)),
	})
	n.nodes[u].adj = append(n.nodes[u].adj, e)
	n.nodes[v].adj = append(n.nodes[v].adj, e)
}

// disconnect removes pair e from the lists of both its nodes.
func (n *network) disconnect(e int32) {
	p := &n.pairs[e]
	p.gone = true
	for _, i := range [2]int32{p.u, p.v} {
		nd := &n.nodes[i]
		k := slices.Index(nd.adj, e)
		nd.adj = slices.Delete(nd.adj, k, k+1)
	}
}

// between returns the pair that joins u and v, or -1.
func (n *network) between(u, v int32) int32 {
	if len(n.nodes[u].adj) > len(n.nodes[v].adj) {
		u, v = v, u
	}
	for _, e := range n.nodes[u].adj {
		if p := &n.pairs[e]; p.u == v || p.v == v {
			return e
		}
	}
	return -1
}

// clone copies what later steps change and shares what they never do.
func (n *network) clone() *network {
	c := &network{base: n.base, nodes: slices.Clone(n.nodes), pairs: slices.Clone(n.pairs), trail: n.trail}
	for i := range c.nodes {
		nd := &c.nodes[i]
		if nd.gone {
			continue
		}
		nd.reduced = slices.Clone(nd.reduced)
		nd.adj = slices.Clone(nd.adj)
	}
	for e := range c.pairs {
		if p := &c.pairs[e]; !p.gone {
			p.toU, p.toV = slices.Clone(p.toU), slices.Clone(p.toV)
		}
	}
	return c
}

// compact drops the nodes and pairs that are gone and the values ruled out.
// What has been moved out of a table is settled in it.
func (n *network) compact() *network {
	c := &network{base: n.base, trail: n.trail}
	c.nodes = make([]node, 0, len(n.nodes))
	c.pairs = make([]pair, 0, len(n.pairs))
	renumber := make([]int32, len(n.nodes))
	kept := make([][]int32, len(n.nodes))
	for i := range n.nodes {
		if n.nodes[i].gone {
			continue
		}
		renumber[i] = int32(len(c.nodes)) // #nosec G115 -- at most MaxTasks
		var nd node
		nd, kept[i] = n.nodes[i].compact(c)
		c.nodes = append(c.nodes, nd)
	}
	for e := range n.pairs {
		p := &n.pairs[e]
		if p.gone {
			continue
		}
		rows, cols := kept[p.u], kept[p.v]
		table := c.slab.take(len(rows) * len(cols))[:0]
		width := len(p.toV)
		for _, a := range rows {
			row, taken := p.table[int(a)*width:][:width], p.toU[a]
			for _, b := range cols {
				table = append(table, p.scale*row[b]-taken-p.toV[b])
			}
		}
		c.connect(renumber[p.u], renumber[p.v], table)
	}
	return c
}

// compact returns the node without the values ruled out, and their indices.
func (nd *node) compact(n *network) (c node, kept []int32) {
	k := int(nd.left)
	ints := make([]int32, 2*k+len(nd.adj))
	c = node{
		task: nd.task, left: nd.left, values: ints[:0:k], reduced: n.slab.take(k)[:0],
		adj: ints[2*k : 2*k : 2*k+len(nd.adj)],
	}
	kept = ints[k : k : 2*k]
	for a, r := range nd.reduced {
		if r < inf {
			c.values = append(c.values, nd.values[a])
			c.reduced = append(c.reduced, r)
			kept = append(kept, int32(a)) // #nosec G115 -- at most MaxCandidates
		}
	}
	return c, kept
}

// cheapest is the value with the least reduced cost.
func (nd *node) cheapest() int {
	best := 0
	for a, r := range nd.reduced {
		if r < nd.reduced[best] {
			best = a
		}
	}
	return best
}

// take rules out all values of the node but a.
func (nd *node) take(a int) {
	for b := range nd.reduced {
		if b != a {
			nd.reduced[b] = inf
		}
	}
	nd.left = 1
}

// runnerUp is the least reduced cost of the node's values but a.
func (nd *node) runnerUp(a int) float64 {
	least := inf
	for b, r := range nd.reduced {
		if b != a && r < least {
			least = r
		}
	}
	return least
}

// inherit takes over from a network with the same nodes and pairs, but more
// values, what has been moved from the pairs.
func (n *network) inherit(old *network) {
	for e := range n.pairs {
		p, q := &n.pairs[e], &old.pairs[e]
		inheritValues(p.toU, n.nodes[p.u].values, q.toU, old.nodes[p.u].values)
		inheritValues(p.toV, n.nodes[p.v].values, q.toV, old.nodes[p.v].values)
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

package optimizer

import "slices"

// dropped is one node eliminated on its own, with its pairs as they were.
type dropped struct {
	task    int32
	values  []int32
	reduced []float64
	around  []neighbour
}

type neighbour struct {
	task   int32
	values []int32
	side   side
}

func (d *dropped) restore(p plan) {
	total := slices.Clone(d.reduced)
	for i := range d.around {
		nb := &d.around[i]
		b := slices.Index(nb.values, p[nb.task])
		for a := range total {
			if total[a] < inf {
				total[a] += nb.side.at(a, b)
			}
		}
	}
	best := 0
	for a, x := range total {
		if x < total[best] {
			best = a
		}
	}
	p[d.task] = d.values[best]
}

// eliminate removes nodes, exactly, for as long as it is cheap: those with one
// value left, those with at most one pair, and those with two pairs that leave
// a table of the two neighbours for less than limit steps. What is left has
// only nodes with three neighbours or more, or is empty: chains, trees and
// series-parallel graphs go entirely.
func eliminate(n *network, limit int, cut float64, s *scratch, m *meter) bool {
	queue := make([]int32, 0, len(n.nodes))
	for i := range n.nodes {
		queue = append(queue, int32(i)) // #nosec G115 -- at most MaxTasks
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		nd := &n.nodes[i]
		if nd.gone {
			continue
		}
		if !n.settle(i, cut) {
			return false
		}
		switch {
		case nd.left == 1:
			queue = fix(n, i, queue)
		case len(nd.adj) == 0:
			drop(n, i)
		case len(nd.adj) == 1:
			queue = append(queue, fold(n, i, s, m))
		case len(nd.adj) == 2 && seriesWork(n, i) <= limit:
			u, v := series(n, i, s, m)
			queue = append(queue, u, v)
		}
	}
	return true
}

// drop removes node i, whose reduced cost is settled, and its pairs, having
// noted how to restore it.
func drop(n *network, i int32) {
	nd := &n.nodes[i]
	d := &dropped{task: nd.task, values: nd.values, reduced: nd.reduced}
	for _, e := range nd.adj {
		sd := n.side(e, i)
		peer := &n.nodes[sd.peer]
		d.around = append(d.around, neighbour{task: peer.task, values: peer.values, side: sd})
	}
	for len(nd.adj) > 0 {
		n.disconnect(nd.adj[len(nd.adj)-1])
	}
	nd.gone = true
	n.remember(d)
}

// fix removes node i, which has one value left: what its pairs cost with that
// value goes to the neighbours.
func fix(n *network, i int32, queue []int32) []int32 {
	nd := &n.nodes[i]
	a := slices.IndexFunc(nd.reduced, func(r float64) bool { return r < inf })
	for _, e := range nd.adj {
		sd := n.side(e, i)
		sd.addRow(n.nodes[sd.peer].reduced, a)
		queue = append(queue, sd.peer)
	}
	n.remember(&fixed{task: nd.task, value: nd.values[a]})
	for len(nd.adj) > 0 {
		n.disconnect(nd.adj[len(nd.adj)-1])
	}
	nd.gone = true
	return queue
}

// fixed is a node that had one value left.
type fixed struct {
	task, value int32
}

func (f *fixed) restore(p plan) { p[f.task] = f.value }

// fold removes node i, which has one pair, into its neighbour.
func fold(n *network, i int32, s *scratch, m *meter) int32 {
	nd := &n.nodes[i]
	sd := n.side(nd.adj[0], i)
	s.h = grow(s.h, len(nd.reduced))
	for a, r := range nd.reduced {
		s.h[a] = r - sd.toSelf[a]
	}
	// the peer's share is taken from a copy, for restore needs the pair as
	// it was
	s.offer = grow(s.offer, len(sd.toPeer))
	m.spend(sd.push(s.offer, s.h))
	peer := &n.nodes[sd.peer]
	for b, y := range s.offer {
		peer.reduced[b] += y - sd.toPeer[b]
	}
	drop(n, i)
	return sd.peer
}

// seriesWork is the number of steps that removing node i, which has two pairs,
// takes at most.
func seriesWork(n *network, i int32) int {
	nd := &n.nodes[i]
	work := int(nd.left)
	for _, e := range nd.adj {
		work *= len(n.nodes[n.pairs[e].u+n.pairs[e].v-i].values)
	}
	return work
}

// series removes node i, which has two pairs, into a pair of its neighbours.
func series(n *network, i int32, s *scratch, m *meter) (u, v int32) {
	nd := &n.nodes[i]
	left, right := n.side(nd.adj[0], i), n.side(nd.adj[1], i)
	if left.peer > right.peer {
		left, right = right, left
	}
	u, v = left.peer, right.peer
	rows, cols, mid := len(left.toPeer), len(right.toPeer), len(nd.reduced)
	table := make([]float64, rows*cols)
	through := side{matrices: matrices{table: right.residuals(), scale: 1}}
	back := left.reversed()
	s.h = grow(s.h, mid)
	work := mid * cols
	for a, r := range n.nodes[u].reduced {
		if r == inf {
			continue
		}
		copy(s.h, nd.reduced)
		back.addRow(s.h, a)
		work += mid + through.push(table[a*cols:(a+1)*cols], s.h)
	}
	m.spend(work)
	drop(n, i)
	addTable(n, u, v, rows, table)
	return u, v
}

// pieces groups the nodes that pairs join, directly or not.
func pieces(n *network) [][]int32 {
	var pieces [][]int32
	seen := make([]bool, len(n.nodes))
	for i := range n.nodes {
		if seen[i] || n.nodes[i].gone {
			continue
		}
		seen[i] = true
		piece := []int32{int32(i)} // #nosec G115 -- at most MaxTasks
		for head := 0; head < len(piece); head++ {
			for _, e := range n.nodes[piece[head]].adj {
				if j := n.pairs[e].u + n.pairs[e].v - piece[head]; !seen[j] {
					seen[j] = true
					piece = append(piece, j)
				}
			}
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// addTable adds a table over the values of u, in rows, and v to their pair.
func addTable(n *network, u, v int32, rows int, table []float64) {
	e := n.between(u, v)
	if e < 0 {
		n.connect(u, v, table)
		return
	}
	p := &n.pairs[e]
	cols := len(table) / rows
	sum := make([]float64, len(table))
	for a := range rows {
		for b := range cols {
			if p.u == u {
				sum[a*cols+b] = p.scale*p.table[a*cols+b] + table[a*cols+b]
			} else {
				sum[b*rows+a] = p.scale*p.table[b*rows+a] + table[a*cols+b]
			}
		}
	}
	p.table, p.transposed, p.scale = sum, nil, 1
}

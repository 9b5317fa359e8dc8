package leastcost

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// dropped is one separately eliminated node with its pairs at that time.
type dropped struct {
	task    int32
	values  []int32
	reduced []float64
	around  []neighbour
}

type neighbour struct {
	task   int32
	values []int32
	side   network.Side
}

func (d *dropped) Restore(p problem.Plan) {
	total := slices.Clone(d.reduced)
	for i := range d.around {
		nb := &d.around[i]
		b := slices.Index(nb.values, p[nb.task])
		for a := range total {
			total[a] += nb.side.At(a, b) // excluded values stay +Inf
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

// Reduce removes nodes exactly as long as it is cheap: nodes with one value left, nodes with at most one pair, and
// nodes with two pairs if the new table between the two neighbours takes at most limit steps. Afterwards only nodes
// with three or more neighbours, or with two expensive ones, are left. Chains, trees and series-parallel graphs are
// removed completely. It returns false if no solution below cut is left.
func Reduce(n *network.Network, limit int, cut float64, s *network.Scratch, m *search.Meter) bool {
	queue := make([]int32, 0, len(n.Nodes))
	for i := range n.Nodes {
		queue = append(queue, int32(i)) // #nosec G115 -- at most MaxTasks
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		nd := &n.Nodes[i]
		if nd.Gone {
			continue
		}
		if !n.Settle(i, cut) {
			return false
		}
		switch {
		case nd.Left == 1:
			queue = fix(n, i, queue)
		case len(nd.Adj) == 0:
			drop(n, i)
		case len(nd.Adj) == 1:
			queue = append(queue, fold(n, i, s, m))
		case len(nd.Adj) == 2 && seriesWork(n, i) <= limit:
			u, v := series(n, i, s, m)
			queue = append(queue, u, v)
		}
	}
	return true
}

// drop removes node i, whose reduced cost is settled, with its pairs, after recording how to restore it.
func drop(n *network.Network, i int32) {
	nd := &n.Nodes[i]
	d := &dropped{task: nd.Task, values: nd.Values, reduced: nd.Reduced}
	for _, e := range nd.Adj {
		sd := n.Side(e, i)
		peer := &n.Nodes[sd.Peer]
		d.around = append(d.around, neighbour{task: peer.Task, values: peer.Values, side: sd})
	}
	for len(nd.Adj) > 0 {
		n.Disconnect(nd.Adj[len(nd.Adj)-1])
	}
	nd.Gone = true
	n.Remember(d)
}

// fix removes node i, which has one value left. The costs of its pairs with that value go to the neighbours.
func fix(n *network.Network, i int32, queue []int32) []int32 {
	nd := &n.Nodes[i]
	a := slices.IndexFunc(nd.Reduced, func(r float64) bool { return r < search.Inf })
	for _, e := range nd.Adj {
		sd := n.Side(e, i)
		sd.AddRow(n.Nodes[sd.Peer].Reduced, a)
		queue = append(queue, sd.Peer)
	}
	n.Remember(&fixed{task: nd.Task, value: nd.Values[a]})
	for len(nd.Adj) > 0 {
		n.Disconnect(nd.Adj[len(nd.Adj)-1])
	}
	nd.Gone = true
	return queue
}

// fixed is a removed node that had one value left.
type fixed struct {
	task, value int32
}

func (f *fixed) Restore(p problem.Plan) { p[f.task] = f.value }

// fold removes node i, which has one pair, into its neighbour.
func fold(n *network.Network, i int32, s *network.Scratch, m *search.Meter) int32 {
	nd := &n.Nodes[i]
	sd := n.Side(nd.Adj[0], i)
	s.H = search.Grow(s.H, len(nd.Reduced))
	for a, r := range nd.Reduced {
		s.H[a] = r - sd.ToSelf[a]
	}
	// Offers are computed in scratch space, because restoring needs the pair unchanged.
	s.Offer = search.Grow(s.Offer, len(sd.ToPeer))
	m.Spend(sd.Push(s.Offer, s.H))
	peer := &n.Nodes[sd.Peer]
	for b, y := range s.Offer {
		peer.Reduced[b] += y - sd.ToPeer[b]
	}
	drop(n, i)
	return sd.Peer
}

// seriesWork returns the maximum number of steps to remove node i, which has two pairs.
func seriesWork(n *network.Network, i int32) int {
	nd := &n.Nodes[i]
	work := int(nd.Left)
	for _, e := range nd.Adj {
		work *= len(n.Nodes[n.Pairs[e].U+n.Pairs[e].V-i].Values)
	}
	return work
}

// series removes node i, which has two pairs, into a pair of its neighbours.
func series(n *network.Network, i int32, s *network.Scratch, m *search.Meter) (u, v int32) {
	nd := &n.Nodes[i]
	left, right := n.Side(nd.Adj[0], i), n.Side(nd.Adj[1], i)
	if left.Peer > right.Peer {
		left, right = right, left
	}
	u, v = left.Peer, right.Peer
	rows, cols, mid := len(left.ToPeer), len(right.ToPeer), len(nd.Reduced)
	table := make([]float64, rows*cols)
	through := network.Side{Matrices: network.Matrices{Table: right.Residuals(), Scale: 1}}
	back := left.Reversed()
	s.H = search.Grow(s.H, mid)
	work := mid * cols
	for a, r := range n.Nodes[u].Reduced {
		if r == search.Inf {
			continue
		}
		copy(s.H, nd.Reduced)
		back.AddRow(s.H, a)
		work += mid + through.Push(table[a*cols:(a+1)*cols], s.H)
	}
	m.Spend(work)
	drop(n, i)
	addTable(n, u, v, rows, table)
	return u, v
}

// Pieces groups the nodes that are connected by pairs.
func Pieces(n *network.Network) [][]int32 {
	var pieces [][]int32
	seen := make([]bool, len(n.Nodes))
	for i := range n.Nodes {
		if seen[i] || n.Nodes[i].Gone {
			continue
		}
		seen[i] = true
		piece := []int32{int32(i)} // #nosec G115 -- at most MaxTasks
		for head := 0; head < len(piece); head++ {
			for _, e := range n.Nodes[piece[head]].Adj {
				if j := n.Pairs[e].U + n.Pairs[e].V - piece[head]; !seen[j] {
					seen[j] = true
					piece = append(piece, j)
				}
			}
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// addTable adds a table over the values of u (rows) and v to their pair.
func addTable(n *network.Network, u, v int32, rows int, table []float64) {
	e := n.Between(u, v)
	if e < 0 {
		n.Connect(u, v, table)
		return
	}
	p := &n.Pairs[e]
	cols := len(table) / rows
	sum := make([]float64, len(table))
	for a := range rows {
		for b := range cols {
			if p.U == u {
				sum[a*cols+b] = p.Scale*p.Table[a*cols+b] + table[a*cols+b]
			} else {
				sum[b*rows+a] = p.Scale*p.Table[b*rows+a] + table[a*cols+b]
			}
		}
	}
	p.Table, p.Transposed, p.Scale = sum, nil, 1
}

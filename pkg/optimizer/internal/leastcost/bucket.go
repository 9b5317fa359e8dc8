package leastcost

import (
	"math/bits"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// buckets is a set of nodes that are eliminated together, exactly, by bucket elimination (Dechter, Bucket
// elimination: a unifying framework for reasoning, 1999). The graph between them may have any shape.
type buckets struct {
	tasks  []int32   // in elimination order
	values [][]int32 // of each task
	bucket []bucket  // of each task
}

// bucket eliminates one node by minimising the sum of its factors over it.
type bucket struct {
	size    int   // number of values of the node
	scope   []int // positions that the result depends on: later ones, last first
	factors []factor
}

// factor is a table over positions in the elimination order, latest first, so that the node eliminated first is along
// the rows.
type factor struct {
	scope []int
	table []float64
}

func (b *buckets) Restore(p problem.Plan) {
	at := make([]int, len(b.tasks))
	for pos := len(b.tasks) - 1; pos >= 0; pos-- {
		bk := &b.bucket[pos]
		total := make([]float64, bk.size)
		for i := range bk.factors {
			f := &bk.factors[i]
			row := 0
			for _, q := range f.scope[:len(f.scope)-1] {
				row = row*b.bucket[q].size + at[q]
			}
			for a, x := range f.table[row*bk.size:][:bk.size] {
				total[a] += x
			}
		}
		for a, x := range total {
			if x < total[at[pos]] {
				at[pos] = a
			}
		}
		p[b.tasks[pos]] = b.values[pos][at[pos]]
	}
}

// maxBuckets is the maximum number of nodes that are eliminated together. Finding their order takes memory and time
// quadratic in it.
const maxBuckets = 4096

// Order returns an order of the given nodes of n in which eliminating them one by one takes few steps: always the
// node whose table with its neighbours is the smallest (the min-weight heuristic). It returns nil if the total number
// of steps would exceed limit. The network must be compact.
func Order(n *network.Network, nodes []int32, limit float64) []int32 {
	if len(nodes) > maxBuckets {
		return nil
	}
	g := newFillGraph(n, nodes)
	order := make([]int32, 0, len(nodes))
	total := 0.0
	for range nodes {
		i, weight := g.lightest()
		total += weight
		if total > limit {
			return nil
		}
		order = append(order, nodes[i])
		g.eliminate(i)
	}
	return order
}

// fillGraph is the interaction graph during elimination. Row i marks the neighbours of i.
type fillGraph struct {
	size   []float64
	weight []float64 // cost of eliminating each node next; +Inf once eliminated
	rows   [][]uint64
	list   []int // scratch space
}

func newFillGraph(n *network.Network, nodes []int32) *fillGraph {
	local := make(map[int32]int, len(nodes))
	for k, i := range nodes {
		local[i] = k
	}
	words := (len(nodes) + 63) / 64
	g := &fillGraph{
		size: make([]float64, len(nodes)), weight: make([]float64, len(nodes)), rows: make([][]uint64, len(nodes)),
	}
	backing := make([]uint64, words*len(nodes))
	for k, i := range nodes {
		g.rows[k] = backing[k*words : (k+1)*words]
		g.size[k] = float64(n.Nodes[i].Left)
		for _, e := range n.Nodes[i].Adj {
			j := local[n.Pairs[e].U+n.Pairs[e].V-i]
			g.rows[k][j/64] |= 1 << (j % 64)
		}
	}
	for k := range nodes {
		g.weigh(k)
	}
	return g
}

// around appends the neighbours of k to list.
func (g *fillGraph) around(k int, list []int) []int {
	for w, word := range g.rows[k] {
		for ; word != 0; word &= word - 1 {
			list = append(list, w*64+bits.TrailingZeros64(word))
		}
	}
	return list
}

func (g *fillGraph) weigh(k int) {
	weight := g.size[k]
	for w, word := range g.rows[k] {
		for ; word != 0; word &= word - 1 {
			weight *= g.size[w*64+bits.TrailingZeros64(word)]
		}
	}
	g.weight[k] = weight
}

func (g *fillGraph) lightest() (int, float64) {
	best := 0
	for k, w := range g.weight {
		if w < g.weight[best] {
			best = k
		}
	}
	return best, g.weight[best]
}

func (g *fillGraph) eliminate(k int) {
	g.list = g.around(k, g.list[:0])
	for _, j := range g.list {
		for w := range g.rows[j] {
			g.rows[j][w] |= g.rows[k][w]
		}
		g.rows[j][j/64] &^= 1 << (j % 64)
		g.rows[j][k/64] &^= 1 << (k % 64)
	}
	for _, j := range g.list {
		g.weigh(j)
	}
	g.weight[k] = search.Inf
}

// Buckets removes all the nodes in the given order. They must be one or several whole components of the compact
// network n.
func Buckets(n *network.Network, order []int32, m *search.Meter) {
	b := &buckets{bucket: make([]bucket, len(order))}
	position := make(map[int32]int, len(order))
	for pos, i := range order {
		position[i] = pos
		nd := &n.Nodes[i]
		b.tasks = append(b.tasks, nd.Task)
		b.values = append(b.values, nd.Values)
		b.bucket[pos].size = len(nd.Values)
		b.add(factor{scope: []int{pos}, table: nd.Reduced})
	}
	for pos, i := range order {
		for _, e := range n.Nodes[i].Adj {
			sd := n.Side(e, i)
			if later := position[sd.Peer]; later > pos {
				back := sd.Reversed()
				b.add(factor{scope: []int{later, pos}, table: back.Residuals()})
			}
		}
	}
	for pos := range order {
		result := b.minimise(pos, m)
		if len(result.scope) == 0 {
			n.Base += result.table[0]
			continue
		}
		b.add(result)
	}
	for _, i := range order {
		nd := &n.Nodes[i]
		for len(nd.Adj) > 0 {
			n.Disconnect(nd.Adj[len(nd.Adj)-1])
		}
		nd.Gone = true
	}
	n.Remember(b)
}

// add adds a factor to the bucket of that of its nodes which is eliminated first.
func (b *buckets) add(f factor) {
	bk := &b.bucket[f.scope[len(f.scope)-1]]
	bk.factors = append(bk.factors, f)
	for _, q := range f.scope[:len(f.scope)-1] {
		if !slices.Contains(bk.scope, q) {
			bk.scope = append(bk.scope, q)
		}
	}
}

// minimise eliminates the node at pos: it computes the minimum of the sum of its factors for each combination of the
// nodes that they depend on.
func (b *buckets) minimise(pos int, m *search.Meter) factor {
	bk := &b.bucket[pos]
	slices.SortFunc(bk.scope, func(x, y int) int { return y - x })
	out := factor{scope: bk.scope}
	size := 1
	for _, q := range bk.scope {
		size *= b.bucket[q].size
	}
	out.table = make([]float64, 0, size)
	m.Spend(size * bk.size)
	s := newSummation(b, bk)
	out.table = s.run(0, out.table)
	return out
}

// summation adds the factors of a bucket level by level. A factor is added at the level of its scope's last node,
// where its row is known, so that sums of outer factors are not computed again for each inner combination.
type summation struct {
	sizes  []int       // of the scope's nodes
	sums   [][]float64 // sums[l] over the node's values, factors up to level l-1
	strand []strand
	byEnd  [][]int // strands by the level of their last node
}

// strand is a factor with the stride in its table for each level.
type strand struct {
	table  []float64
	stride []int
	offset []int // offset[l] is the position in table after the levels before l are set
}

func newSummation(b *buckets, bk *bucket) *summation {
	levels := len(bk.scope)
	s := &summation{byEnd: make([][]int, levels)}
	for range levels + 1 {
		s.sums = append(s.sums, make([]float64, bk.size))
	}
	for _, q := range bk.scope {
		s.sizes = append(s.sizes, b.bucket[q].size)
	}
	for i := range bk.factors {
		f := &bk.factors[i]
		if len(f.scope) == 1 {
			for a, x := range f.table {
				s.sums[0][a] += x
			}
			continue
		}
		st := strand{table: f.table, stride: make([]int, levels), offset: make([]int, levels+1)}
		step, end := bk.size, 0
		for k := len(f.scope) - 2; k >= 0; k-- {
			level := slices.Index(bk.scope, f.scope[k])
			st.stride[level] = step
			step *= b.bucket[f.scope[k]].size
			end = max(end, level)
		}
		s.byEnd[end] = append(s.byEnd[end], len(s.strand))
		s.strand = append(s.strand, st)
	}
	return s
}

// run appends to out the minimum for each combination of the levels from level on, in row-major order.
func (s *summation) run(level int, out []float64) []float64 {
	if level == len(s.sizes) {
		return append(out, slices.Min(s.sums[level]))
	}
	for x := range s.sizes[level] {
		for i := range s.strand {
			st := &s.strand[i]
			st.offset[level+1] = st.offset[level] + x*st.stride[level]
		}
		sum := s.sums[level+1]
		copy(sum, s.sums[level])
		for _, i := range s.byEnd[level] {
			st := &s.strand[i]
			for a, y := range st.table[st.offset[level+1]:][:len(sum)] {
				sum[a] += y
			}
		}
		out = s.run(level+1, out)
	}
	return out
}

package network_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func meter() *search.Meter { return search.Start(context.Background(), search.Limits{}) }

// made returns the network of a drawn problem with some options excluded. It is dense if most options exist, and
// sparse otherwise. For odd seeds its graph is a chain.
func made(seed int) (*problem.Instance, []bool, *network.Network) {
	r := tiny.Rand(seed)
	shape := tiny.Shape{
		Tasks: 1 + r.IntN(5), Places: 1 + r.IntN(4), PerPlace: 1, Edges: min(0.9, 1.5*r.Float64()),
		Rare: 0.7 * r.Float64(), Apart: float64(3 * r.IntN(2)),
	}
	if seed%10 == 0 { // many neighbours
		shape.Tasks, shape.Places, shape.Edges = 7, 2, 0.9
	}
	inst := tiny.Draw(r, shape)
	order := slices.Clone(inst.Topo)
	if seed%2 == 1 {
		inst.Edges = nil
		for i := 1; i < len(order); i++ {
			l := problem.Link{From: order[i-1], To: order[i], SumGiB: float64(r.IntN(4)), MaxGiB: 1}
			inst.Edges = append(inst.Edges, l)
		}
		inst.Edges = problem.MergeParallel(inst.Edges)
		inst.In = problem.Adjacent(len(order), inst.Edges, func(e *problem.Link) int32 { return e.To })
		inst.Out = problem.Adjacent(len(order), inst.Edges, func(e *problem.Link) int32 { return e.From })
	} else {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	alive := make([]bool, len(inst.Opts))
	for t := range inst.NTask() {
		for o := inst.First[t]; o < inst.First[t+1]; o++ {
			alive[o] = o == inst.First[t] || r.IntN(5) > 0
		}
	}
	return inst, alive, network.New(inst, order, make([]int32, inst.NTask()), alive)
}

// total returns the cost of plan p by the network's terms. It is +Inf if one of p's values is excluded.
func total(n *network.Network, p problem.Plan) float64 {
	sum := n.Base
	value := make([]int32, len(n.Nodes))
	for i := range n.Nodes {
		nd := &n.Nodes[i]
		a := slices.Index(nd.Values, p[nd.Task])
		if a < 0 {
			return search.Inf
		}
		value[i] = int32(a)
		sum += nd.Reduced[a]
	}
	for e := range n.Pairs {
		sum += n.Pairs[e].At(value[n.Pairs[e].U], value[n.Pairs[e].V])
	}
	return sum
}

func near(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-9 }

// agrees checks that the network gives the correct cost for each plan below the cut, and never too little for others.
// All terms except base must be at least zero, so that base is a bound.
func agrees(t *testing.T, inst *problem.Instance, alive []bool, n *network.Network, cut float64, swept bool) {
	t.Helper()
	tiny.Each(inst, alive, func(p problem.Plan, usd, _ float64) {
		if got := total(n, p); !near(got, usd) && (usd < cut || !math.IsInf(got, 1)) {
			t.Fatalf("plan %v costs %v by its network, not %v", p, got, usd)
		}
	})
	left := 0
	for i := range n.Nodes {
		nd := &n.Nodes[i]
		count := 0
		for _, r := range nd.Reduced {
			if r < -1e-9 {
				t.Fatalf("a value costs %v", r)
			}
			if r < search.Inf {
				count++
			}
		}
		if left += count; count != int(nd.Left) {
			t.Fatalf("%d values are left of node %d, not %d", count, i, nd.Left)
		}
	}
	if n.ValuesLeft() != left {
		t.Fatalf("%d values are left, not %d", n.ValuesLeft(), left)
	}
	for e := range n.Pairs {
		p := &n.Pairs[e]
		for a := range n.Nodes[p.U].Reduced {
			for b := range n.Nodes[p.V].Reduced {
				ruled := n.Nodes[p.U].Reduced[a] == search.Inf || n.Nodes[p.V].Reduced[b] == search.Inf
				if x := p.At(int32(a), int32(b)); swept && !ruled && x < -1e-9 {
					t.Fatalf("a pair costs %v", x)
				}
			}
		}
	}
}

// On a chain, sweeps must raise the bound to the cost of the cheapest plan.
func TestSweepRaisesBound(t *testing.T) {
	m := meter()
	closed := 0
	for seed := range 300 {
		inst, alive, n := made(seed)
		agrees(t, inst, alive, n, search.Inf, false)
		least := search.Inf
		tiny.Each(inst, alive, func(_ problem.Plan, usd, _ float64) { least = min(least, usd) })
		cut := []float64{search.Inf, least + 3, least + 0.5}[seed%3]
		var s network.Scratch
		before := n.Base
		for k := range 6 {
			if !n.Sweep(k%2 == 1, cut, &s, m) {
				t.Fatalf("seed %d: nothing is left below %v", seed, cut)
			}
			if k%2 == 1 && !n.SettleAll(cut) {
				t.Fatalf("seed %d: nothing is left below %v", seed, cut)
			}
			agrees(t, inst, alive, n, cut, true)
			if n.Base < before-1e-9 || n.Base > least+1e-9 {
				t.Fatalf("seed %d: after %v the bound is %v of %v", seed, before, n.Base, least)
			}
			before = n.Base
		}
		if seed%2 == 1 && !near(n.Base, least) {
			t.Fatalf("seed %d: the bound of a chain is %v, not %v", seed, n.Base, least)
		}
		if near(n.Base, least) {
			closed++
		}
		rounded(t, inst, n, &s, least)
		if low := n.Clone(); low.Sweep(false, n.Base, &s, m) || n.Clone().SettleAll(n.Base) {
			t.Fatalf("seed %d: values are left below the bound", seed)
		}
	}
	if closed < 290 || !tiny.StepsNear(m.Work, 31_190, 1.3e-3) {
		t.Errorf("%d of 300 bounds equal the cost of the cheapest plan, after %d steps", closed, m.Work)
	}
}

// rounded checks that the suggested plan has the returned cost, and that it is optimal if the bound equals that cost.
func rounded(t *testing.T, inst *problem.Instance, n *network.Network, s *network.Scratch, least float64) {
	t.Helper()
	value, cost := n.Round(s)
	p := make(problem.Plan, len(n.Nodes))
	for i := range n.Nodes {
		p[n.Nodes[i].Task] = n.Nodes[i].Values[value[i]]
	}
	usd, _ := tiny.Evaluate(inst, p)
	if !near(usd, cost) || len(n.Nodes) < 3 && usd > least+1e-9 && near(n.Base, least) {
		t.Fatalf("plan %v costs %v, not %v; the cheapest costs %v", p, usd, cost, least)
	}
}

// Changes of a network must not affect its copy. A compacted network must be the same, without the excluded values.
func TestCloneAndCompact(t *testing.T) {
	for seed := range 200 {
		inst, alive, n := made(seed)
		least := search.Inf
		tiny.Each(inst, alive, func(_ problem.Plan, usd, _ float64) { least = min(least, usd) })
		var s network.Scratch
		for k := range seed % 3 {
			n.Sweep(k%2 == 1, least+4, &s, meter())
		}
		left, size := n.ValuesLeft(), 0
		for i := range n.Nodes {
			size += len(n.Nodes[i].Values)
		}
		if got := n.WorthCompacting(); got != (float64(left) < 0.75*float64(size)) {
			t.Fatalf("seed %d: with %d of %d values left it is worthwhile: %v", seed, left, size, got)
		}
		c, d := n.Clone(), n.Compact()
		n.Nodes[0].Take(n.Nodes[0].Cheapest())
		n.Sweep(false, least+0.5, &s, meter())
		for len(n.Nodes[0].Adj) > 0 {
			n.Disconnect(n.Nodes[0].Adj[0])
		}
		agrees(t, inst, alive, c, least+4, false)
		agrees(t, inst, alive, d, least+4, false)
		for i := range d.Nodes {
			if d.ValuesLeft() != left || slices.Contains(d.Nodes[i].Reduced, search.Inf) || d.WorthCompacting() {
				t.Fatalf("seed %d: a compact network has excluded values", seed)
			}
		}
		// The compacted network continues where the other one stopped.
		if d.Sweep(false, search.Inf, &s, meter()); d.Base < c.Base-1e-9 || d.Base > least+1e-9 {
			t.Fatalf("seed %d: the bound is %v after %v", seed, d.Base, c.Base)
		}
		agrees(t, inst, alive, d, least+4, false)
	}
}

// removed is a task whose value follows from another task's value.
type removed struct{ task, from int32 }

func (r removed) Restore(p problem.Plan) { p[r.task] = p[r.from] + 1 }

// Removed nodes must be restored in reverse order, also in a copy.
func TestRestoreOrder(t *testing.T) {
	n := &network.Network{}
	n.Remember(removed{0, 1})
	n.Remember(removed{1, 2})
	for _, c := range []*network.Network{n, n.Clone(), n.Compact()} {
		p := problem.Plan{0, 0, 5}
		if c.Restore(p); !slices.Equal(p, problem.Plan{7, 6, 5}) {
			t.Errorf("the plan is %v", p)
		}
	}
}

// A node must return its cheapest value and the cost of the next one. Taking a value must exclude the others.
func TestNodeValues(t *testing.T) {
	nd := network.Node{Reduced: []float64{4, search.Inf, 1, 1, 3}, Left: 4}
	if nd.Cheapest() != 2 || nd.RunnerUp(2) != 1 || nd.RunnerUp(0) != 1 {
		t.Errorf("the cheapest is %d, the next costs %v", nd.Cheapest(), nd.RunnerUp(2))
	}
	nd.Take(4)
	if nd.Left != 1 || nd.Cheapest() != 4 || nd.RunnerUp(4) != search.Inf || nd.Reduced[4] != 3 {
		t.Errorf("taken is %+v", nd)
	}
}

// Between must find a pair in either order of its nodes. A network must be empty when all its nodes are removed.
func TestConnectAndDisconnect(t *testing.T) {
	n := &network.Network{Nodes: make([]network.Node, 5)}
	for i := range n.Nodes {
		n.Nodes[i] = network.Node{Values: []int32{0, 1}, Reduced: []float64{1, 2}, Left: 2}
	}
	table := make([]float64, 4)
	for e, p := range [][2]int32{{0, 1}, {2, 0}, {0, 3}, {3, 2}} {
		n.Connect(p[0], p[1], table)
		if n.Between(p[0], p[1]) != int32(e) || n.Between(p[1], p[0]) != int32(e) {
			t.Errorf("%v are connected by %d", p, n.Between(p[0], p[1]))
		}
	}
	if n.Between(1, 2) != -1 || n.Between(4, 0) != -1 || n.Between(0, 4) != -1 {
		t.Error("unconnected nodes have a pair")
	}
	n.Disconnect(1)
	if n.Between(0, 2) != -1 || n.Between(0, 3) != 2 {
		t.Error("disconnected nodes have a pair, or connected ones have none")
	}
	for i := range n.Nodes {
		if n.Empty() {
			t.Errorf("empty with %d nodes", len(n.Nodes)-i)
		}
		n.Nodes[i].Gone = true
	}
	var s network.Scratch
	if !n.Empty() || n.ValuesLeft() != 0 || !n.SettleAll(0) || !n.Sweep(false, 0, &s, meter()) {
		t.Error("an empty network is not empty")
	}
}

// A network inherits from an older one. The values that both have must keep the costs that were moved out of their
// pairs.
func TestInherit(t *testing.T) {
	join := func(values ...[]int32) *network.Network {
		n := &network.Network{}
		for _, v := range values {
			n.Nodes = append(n.Nodes, network.Node{Values: v, Reduced: make([]float64, len(v)), Left: int32(len(v))})
		}
		n.Connect(0, 1, make([]float64, len(values[0])*len(values[1])))
		return n
	}
	old := join([]int32{1, 3, 4, 7}, []int32{0, 2})
	copy(old.Pairs[0].ToU, []float64{10, 30, 40, 70})
	copy(old.Pairs[0].ToV, []float64{-5, 25})
	n := join([]int32{0, 1, 2, 4, 7, 9}, []int32{2, 3})
	n.Inherit(old)
	u, v := n.Pairs[0].ToU, n.Pairs[0].ToV
	if !slices.Equal(u, []float64{0, 10, 0, 40, 70, 0}) || !slices.Equal(v, []float64{25, 0}) {
		t.Errorf("%v and %v are inherited", u, v)
	}
}

// The side of a pair must equal the pair, seen from either end: by rows, by columns (without a row table), and with
// two matrices.
func TestSideMatchesPair(t *testing.T) {
	table, turned := []float64{1, 2, 3, 4, 5, 6}, []float64{1, 4, 2, 5, 3, 6}
	second, turnedSecond := []float64{0, 7, 1, 2, 0, 9}, []float64{0, 2, 7, 0, 1, 9}
	for name, matrices := range map[string]network.Matrices{
		"both":    {Table: table, Transposed: turned, Scale: 2},
		"one way": {Table: table, Scale: 2},
		"two":     {Table: table, Transposed: turned, Scale: 2, Second: second, SecondTrans: turnedSecond, More: 3},
	} {
		n := &network.Network{Nodes: []network.Node{{Values: []int32{0, 1}}, {Values: []int32{0, 1, 2}}}}
		n.Connect(0, 1, table)
		p := &n.Pairs[0]
		p.Matrices = matrices
		copy(p.ToU, []float64{0.5, -1})
		copy(p.ToV, []float64{0.25, 4, 8})
		left, right := n.Side(0, 0), n.Side(0, 1)
		back := left.Reversed()
		rows, columns := left.Residuals(), right.Residuals()
		for a := range 2 {
			for b := range 3 {
				want := 2*table[a*3+b] - p.ToU[a] - p.ToV[b]
				if name == "two" {
					want += 3 * second[a*3+b]
				}
				if p.At(int32(a), int32(b)) != want || left.At(a, b) != want || right.At(b, a) != want ||
					back.At(b, a) != want || rows[a*3+b] != want || columns[b*2+a] != want {
					t.Errorf("%s: %d and %d cost %v, %v, %v, %v, %v or %v, not %v", name, a, b,
						p.At(int32(a), int32(b)), left.At(a, b), right.At(b, a), back.At(b, a),
						rows[a*3+b], columns[b*2+a], want)
				}
			}
		}
		if left.Peer != 1 || right.Peer != 0 || back.Peer != 0 {
			t.Errorf("%s: the peers are %d, %d and %d", name, left.Peer, right.Peer, back.Peer)
		}
	}
}

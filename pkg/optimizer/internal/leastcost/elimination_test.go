package leastcost_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/leastcost"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/tiny"
)

func eliminationMeter() *search.Meter { return search.Start(context.Background(), search.Limits{}) }

// eliminationDrawn returns the network of a drawn problem in which some options are excluded and costs are moved
// between terms. It also returns the cost of the cheapest remaining plan.
func eliminationDrawn(seed int) (inst *problem.Instance, n *network.Network, least float64) {
	r := tiny.Rand(seed)
	inst = tiny.Draw(r, tiny.Shape{
		Tasks: 1 + r.IntN(6), Places: 1 + r.IntN(4), PerPlace: 1, Edges: min(0.95, 1.5*r.Float64()),
		Rare: 0.6 * r.Float64(),
	})
	alive := make([]bool, len(inst.Opts))
	for t := range inst.NTask() {
		for o := inst.First[t]; o < inst.First[t+1]; o++ {
			alive[o] = o == inst.First[t] || r.IntN(5) > 0
		}
	}
	order := slices.Clone(inst.Topo)
	if r.IntN(2) == 0 {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	n = network.New(inst, order, make([]int32, inst.NTask()), alive)
	var s network.Scratch
	for k := range r.IntN(3) {
		n.Sweep(k%2 == 1, search.Inf, &s, eliminationMeter())
	}
	least = search.Inf
	tiny.Each(inst, alive, func(_ problem.Plan, usd, _ float64) { least = min(least, usd) })
	return inst, n, least
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Elimination must keep the cheapest plan, which is computed by brute force. Some nodes are removed one at a time,
// and the rest together.
func TestEliminationKeepsCheapestPlan(t *testing.T) {
	for seed := range 400 {
		inst, n, least := eliminationDrawn(seed)
		var s network.Scratch
		if limit := []int{-1, 0, 30, 1 << 20}[seed%4]; limit >= 0 {
			if !leastcost.Reduce(n, limit, search.Inf, &s, eliminationMeter()) {
				t.Fatalf("seed %d: no plan is left", seed)
			}
			degrees(t, n, seed, limit)
		}
		n = n.Compact()
		for _, nodes := range leastcost.Pieces(n) {
			leastcost.Buckets(n, leastcost.Order(n, nodes, 1e9), eliminationMeter())
		}
		p := make(problem.Plan, inst.NTask())
		n.Restore(p)
		usd, _ := tiny.Evaluate(inst, p)
		if !n.Empty() || !near(n.Base, least) || !near(usd, least) {
			t.Fatalf("seed %d: costs %v, plan %v costs %v, the cheapest %v", seed, n.Base, p, usd, least)
		}
	}
}

// degrees checks the remaining nodes. Each must have at least three neighbours, or two if its removal would take too
// many steps.
func degrees(t *testing.T, n *network.Network, seed, limit int) {
	for i := range n.Nodes {
		nd := &n.Nodes[i]
		if nd.Gone {
			continue
		}
		work := int(nd.Left)
		for _, e := range nd.Adj {
			work *= len(n.Nodes[n.Pairs[e].U+n.Pairs[e].V-int32(i)].Values)
		}
		if nd.Left == 1 || len(nd.Adj) < 2 || len(nd.Adj) == 2 && work <= limit {
			t.Fatalf("seed %d: a node of %d values and %d pairs is left", seed, nd.Left, len(nd.Adj))
		}
	}
}

// Reduce must find out whether a plan below the cut exists, whichever options are removed first.
func TestReduceDetectsInfeasibleCut(t *testing.T) {
	for seed := range 200 {
		inst, n, least := eliminationDrawn(seed)
		var s network.Scratch
		low := n.Clone()
		if leastcost.Reduce(n, 1<<20, least+0.5, &s, eliminationMeter()); n.Empty() {
			p := make(problem.Plan, inst.NTask())
			n.Restore(p)
			if usd, _ := tiny.Evaluate(inst, p); !near(n.Base, least) || !near(usd, least) {
				t.Fatalf("seed %d: the cheapest plan costs %v, not %v", seed, usd, least)
			}
		}
		if leastcost.Reduce(low, 1<<20, least-0.5, &s, eliminationMeter()) && low.Empty() {
			t.Fatalf("seed %d: a plan below %v is found, of %v", seed, least-0.5, low.Base)
		}
	}
}

// graph returns a network with these numbers of values for its nodes, and random costs for the pairs.
func graph(r *rand.Rand, values []int, pairs [][2]int) *network.Network {
	n := &network.Network{}
	for t, k := range values {
		nd := network.Node{Task: int32(t), Left: int32(k)}
		for a := range k {
			nd.Values, nd.Reduced = append(nd.Values, int32(a)), append(nd.Reduced, float64(r.IntN(9)))
		}
		n.Nodes = append(n.Nodes, nd)
	}
	for _, p := range pairs {
		table := make([]float64, values[p[0]]*values[p[1]])
		for i := range table {
			table[i] = float64(r.IntN(9))
		}
		n.Connect(int32(p[0]), int32(p[1]), table)
	}
	return n
}

func all(n *network.Network) []int32 {
	var list []int32
	for i := range n.Nodes {
		list = append(list, int32(i))
	}
	return list
}

// Each node in the order must have the smallest table with its neighbours at that time. The limit applies to the sum
// of all tables, which is also the counted number of steps.
func TestOrderPicksLightestNode(t *testing.T) {
	for seed := range 60 {
		r := tiny.Rand(seed)
		values := make([]int, 2+r.IntN(9))
		if seed%10 == 0 {
			values = make([]int, 140) // more nodes than a word has bits, with small tables
		}
		for i := range values {
			values[i] = 2 + r.IntN(3)
		}
		var pairs [][2]int
		around := make([]map[int]bool, len(values))
		for b := range values {
			around[b] = map[int]bool{}
			for a := range b {
				if near := b-a < 3 || a == 0 && b%40 == 0; near && r.IntN(4) > 0 {
					pairs = append(pairs, [2]int{a, b})
					around[a][b], around[b][a] = true, true
				}
			}
		}
		n := graph(r, values, pairs)
		order := leastcost.Order(n, all(n), 1e12)
		gone := make([]bool, len(values))
		weigh := func(i int) float64 {
			w := float64(values[i])
			for j := range around[i] {
				w *= float64(values[j])
			}
			return w
		}
		total := 0.0
		for _, next := range order {
			i := int(next)
			w := weigh(i)
			for j := range values {
				if !gone[j] && weigh(j) < w {
					t.Fatalf("seed %d: of weight %v, though %d has %v", seed, w, j, weigh(j))
				}
			}
			total, gone[i] = total+w, true
			for j := range around[i] {
				delete(around[j], i)
				for k := range around[i] {
					if k != j {
						around[j][k] = true
					}
				}
			}
		}
		if slices.Contains(gone, false) {
			t.Fatalf("seed %d: the order is not complete", seed)
		}
		if leastcost.Order(n, all(n), total) == nil || leastcost.Order(n, all(n), total-1) != nil {
			t.Fatalf("seed %d: the limit of %v table entries is not respected", seed, total)
		}
		m := eliminationMeter()
		if leastcost.Buckets(n, order, m); float64(m.Work) != total {
			t.Fatalf("seed %d: %d steps are counted of %v", seed, m.Work, total)
		}
	}
}

// Finding the order takes time and memory quadratic in the number of nodes, so too many nodes must be rejected.
func TestOrderRejectsTooManyNodes(t *testing.T) {
	r := tiny.Rand(1)
	if n := graph(r, slices.Repeat([]int{1}, 4096), nil); leastcost.Order(n, all(n), 1e9) == nil {
		t.Error("4096 nodes are rejected")
	}
	if n := graph(r, slices.Repeat([]int{1}, 4097), nil); leastcost.Order(n, all(n), 1e9) != nil {
		t.Error("4097 nodes are accepted")
	}
}

// Nodes must be in the same piece if they are connected, directly or not.
func TestPieces(t *testing.T) {
	n := graph(tiny.Rand(1), slices.Repeat([]int{2}, 8), [][2]int{{0, 3}, {3, 1}, {2, 5}, {6, 7}, {1, 6}})
	n.Nodes[4].Gone = true
	pieces := leastcost.Pieces(n)
	for _, p := range pieces {
		slices.Sort(p)
	}
	if want := [][]int32{{0, 1, 3, 6, 7}, {2, 5}}; !slices.EqualFunc(pieces, want, slices.Equal) {
		t.Errorf("pieces %v, not %v", pieces, want)
	}
}

// Callers limit the number of steps, so each must be counted. In a chain, it grows with the product of the values of
// each connected pair. For a node with two neighbours, it grows with the product of the values of all three.
func TestEliminationCountsSteps(t *testing.T) {
	for name, c := range map[string]struct {
		pairs    [][2]int
		from, to int64
	}{
		"alone":    {nil, 0, 0},
		"two":      {[][2]int{{0, 1}}, 10, 2 * 110},
		"triangle": {[][2]int{{0, 1}, {1, 2}, {0, 2}}, 1000, 2500},
	} {
		n := graph(tiny.Rand(1), []int{10, 10, 10}, c.pairs)
		m := eliminationMeter()
		var s network.Scratch
		if leastcost.Reduce(n, 1000, search.Inf, &s, m); m.Work < c.from || m.Work > c.to || !n.Empty() {
			t.Errorf("%s: %d steps are counted, all is gone: %v", name, m.Work, n.Empty())
		}
	}
	n := graph(tiny.Rand(1), []int{10, 10, 10}, [][2]int{{0, 1}, {1, 2}, {0, 2}})
	var s network.Scratch
	if leastcost.Reduce(n, 999, search.Inf, &s, eliminationMeter()); n.Empty() {
		t.Error("a node was removed in a thousand steps, but the limit is 999")
	}
}

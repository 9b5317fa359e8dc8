package leastcost

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// costSearch finds the cheapest plan of one component of the cost network by branch and bound. It is best first, but
// follows each node down to the end, so that plans turn up early while the proven bound still rises (a hybrid
// best-first search: Allouche et al., Anytime hybrid best-first search with tree decomposition for weighted CSP,
// 2015).
type costSearch struct {
	inst   *problem.Instance
	tasks  []int32
	meter  *search.Meter
	buf    network.Scratch
	im     *improver
	effort search.Efforts

	// best is a plan for all tasks, of which this search changes only its own; upper is the cost of those in it.
	best  problem.Plan
	upper float64
	// lower is the proven lower bound of upper.
	lower float64

	root *network.Network // simplified; not changed afterwards
	search.OpenList
	// tooLarge means that the network would need too much memory: the search keeps the current plan and bound.
	tooLarge bool
}

// cut returns the cost below which a plan is worth finding: better than the best by more than the promised precision.
func (s *costSearch) cut() float64 { return search.CutBelow(s.upper) }

// start simplifies the component and finds its first plans and bound. If they close the gap, no branch is left open.
func (s *costSearch) start(n *network.Network) {
	n = s.simplify(n, s.effort.Root)
	for before := search.Inf; n != nil && s.upper < before && !s.meter.Stopped; {
		before = s.upper
		s.plunge(n.Clone())
		if s.upper < before {
			n = s.simplify(n, s.effort.Again)
		}
	}
	if n == nil {
		s.lower = s.upper
		return
	}
	s.lower = min(max(s.lower, n.Base), s.upper)
	s.root = n
	s.Push(n.Base, nil)
}

// plunge looks for a better plan. It fixes a tenth of the tasks at a time to the values that the bound suggests,
// starting with the clearest. It proves nothing.
func (s *costSearch) plunge(n *network.Network) {
	for {
		order := make([]int32, 0, len(n.Nodes))
		gap := make([]float64, len(n.Nodes))
		for i := range n.Nodes {
			if nd := &n.Nodes[i]; !nd.Gone {
				order = append(order, int32(i)) // #nosec G115 -- at most MaxTasks
				gap[i] = nd.RunnerUp(nd.Cheapest())
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(gap[b], gap[a]) })
		for _, i := range order[:(len(order)+9)/10] {
			nd := &n.Nodes[i]
			nd.Take(nd.Cheapest())
		}
		n = s.simplify(n, s.effort.Plunge)
		if n == nil || s.meter.Stopped {
			return
		}
	}
}

// run searches until the optimum is proven or the meter stops it.
func (s *costSearch) run() {
	for !s.tooLarge && s.Continue(s.upper, s.meter) {
		next, ok := s.Pop(s.cut())
		if !ok {
			break
		}
		if n := s.replay(next.Decision); n != nil {
			s.dive(n, next)
		}
	}
	s.lower = min(s.upper, max(s.lower, s.Least(s.cut())))
}

// dive follows one branch and leaves the others open. It always takes the most promising value of the task that costs
// the bound most. If it is stopped, it leaves its current branch open.
func (s *costSearch) dive(n *network.Network, at search.Branch) {
	for {
		n = s.simplify(n, s.effort.Branch)
		if n == nil {
			return
		}
		if s.meter.Stopped {
			s.Push(max(at.Bound, n.Base), at.Decision)
			return
		}
		i, a := s.choose(n)
		task, value := n.Nodes[i].Task, n.Nodes[i].Values[a]
		if other := n.Base + n.Nodes[i].RunnerUp(a); other < s.cut() {
			s.Push(other, &search.Decision{Before: at.Decision, Task: task, Value: value})
		}
		at.Decision = &search.Decision{Before: at.Decision, Task: task, Value: value, Kind: search.Take}
		n.Nodes[i].Take(a)
	}
}

// replay applies decisions to a copy of the root. It returns nil for a dead end.
func (s *costSearch) replay(d *search.Decision) *network.Network {
	n := s.root.Clone()
	node := make(map[int32]int, len(n.Nodes))
	for i := range n.Nodes {
		node[n.Nodes[i].Task] = i
	}
	for ; d != nil; d = d.Before {
		nd := &n.Nodes[node[d.Task]]
		a := slices.Index(nd.Values, d.Value)
		switch {
		case nd.Reduced[a] == search.Inf:
			if d.Kind == search.Take {
				return nil
			}
		case d.Kind == search.Take:
			nd.Take(a)
		default:
			nd.Reduced[a] = search.Inf
			nd.Left--
		}
		if nd.Left == 0 {
			return nil
		}
	}
	return n
}

// choose returns the node whose rounded value costs most above the bound, and that value.
func (s *costSearch) choose(n *network.Network) (i, a int) {
	value, _ := n.Round(&s.buf)
	worst := -1.0
	for k := range n.Nodes {
		nd := &n.Nodes[k]
		if nd.Gone {
			continue
		}
		excess := nd.Reduced[value[k]]
		for _, e := range nd.Adj {
			p := &n.Pairs[e]
			excess += p.At(value[p.U], value[p.V])
		}
		if excess > worst {
			worst, i = excess, k
		}
	}
	return i, int(value[i])
}

// simplify reduces n, raises its bound and looks for better plans. It returns nil if n contains no plan that is
// better than the best.
func (s *costSearch) simplify(n *network.Network, f search.Effort) *network.Network {
	for k := 0; ; k++ {
		series := f.Series
		if k == 0 {
			// sweeps soon exclude most values, which makes it cheaper
			series = min(series, 4000)
		}
		if !Reduce(n, series, s.cut(), &s.buf, s.meter) {
			return nil
		}
		if n = s.shrink(n, f); n == nil {
			return nil
		}
		if k == f.Sweeps || s.meter.Stopped {
			return n
		}
		gap, left := s.cut()-n.Base, n.ValuesLeft()
		if !n.Sweep(false, s.cut(), &s.buf, s.meter) || !n.Sweep(true, s.cut(), &s.buf, s.meter) {
			return nil
		}
		if s.tryRounding(n) || !n.SettleAll(s.cut()) {
			return nil
		}
		if s.cut()-n.Base > (1-f.Gain)*gap && 20*n.ValuesLeft() > 19*left {
			k = f.Sweeps - 1 // one more elimination, then stop
		}
	}
}

// shrink compacts n if worthwhile and solves it if that is cheap. After solving it returns nil.
func (s *costSearch) shrink(n *network.Network, f search.Effort) *network.Network {
	if n.Empty() {
		s.solved(n)
		return nil
	}
	if !n.WorthCompacting() {
		return n
	}
	n = n.Compact()
	for _, nodes := range Pieces(n) {
		if order := Order(n, nodes, f.Buckets); order != nil {
			Buckets(n, order, s.meter)
		}
	}
	if n.Base >= s.cut() {
		return nil
	}
	if n.Empty() {
		s.solved(n)
		return nil
	}
	return n
}

// tryRounding adopts the plan that the reduced costs suggest if it is the best so far. It reports whether that proves
// that n contains no better plan.
func (s *costSearch) tryRounding(n *network.Network) bool {
	value, cost := n.Round(&s.buf)
	if cost >= s.upper {
		return false
	}
	p := slices.Clone(s.best)
	for i := range n.Nodes {
		if nd := &n.Nodes[i]; !nd.Gone {
			p[nd.Task] = nd.Values[value[i]]
		}
	}
	s.offer(n, p)
	return n.Base >= s.cut()
}

// solved adopts the plan of a network without nodes, if it is the best so far.
func (s *costSearch) solved(n *network.Network) {
	if n.Base < s.upper {
		s.offer(n, slices.Clone(s.best))
	}
}

// offer completes p for the tasks that n has eliminated, improves it and stores it if it is the best so far.
func (s *costSearch) offer(n *network.Network, p problem.Plan) {
	n.Restore(p)
	s.im.improve(p, s.tasks, s.meter)
	if c := s.inst.CostOf(p, s.tasks); c < s.upper {
		s.upper = c
		copy(s.best, p)
	}
}

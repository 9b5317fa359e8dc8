package leastcost

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/elimination"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// costSearch finds the cheapest plan of one component of the cost network by
// branch and bound: best first, but each node it takes up it follows down to
// the end, so that plans turn up early and the proven bound still rises
// (a hybrid best-first search: Allouche et al., Anytime hybrid best-first
// search with tree decomposition for weighted CSP, 2015).
type costSearch struct {
	inst   *problem.Instance
	tasks  []int32
	meter  *search.Meter
	buf    network.Scratch
	im     *improver
	effort search.Efforts

	// best is a plan for all tasks of which this search changes its own;
	// upper is what those cost in it.
	best  problem.Plan
	upper float64
	// lower is the proven bound on upper.
	lower float64

	root *network.Network // simplified, never changed again
	search.OpenList
	// tooLarge means that there is no network, for want of memory: the plan
	// and the bound at hand are all there will be.
	tooLarge bool
}

// cut is the cost below which a plan is worth finding: better than the best by
// more than the precision promised.
func (s *costSearch) cut() float64 { return search.CutBelow(s.upper) }

// start simplifies the component and finds its first plans and bound. It leaves
// nothing open if that closes the gap.
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

// plunge looks for a better plan by following the bound's opinion a tenth of
// the tasks at a time, those on which it is clearest first. It proves nothing.
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
	for !s.tooLarge && s.GoOn(s.upper, s.meter) {
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

// dive follows one branch, always taking the most promising value of the task
// that costs the bound the most, and leaves the rest open. Stopped halfway, it
// leaves open what it was at.
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

// replay applies decisions to a copy of the root; nil is a dead end.
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

// choose picks the node whose rounded value costs most over the bound, and that
// value.
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

// simplify reduces n, raises its bound and looks for better plans. It returns
// nil when n holds no plan better than the best any more.
func (s *costSearch) simplify(n *network.Network, f search.Effort) *network.Network {
	for k := 0; ; k++ {
		series := f.Series
		if k == 0 {
			// sweeps soon rule out most values, and make it cheaper
			series = min(series, 4000)
		}
		if !elimination.Reduce(n, series, s.cut(), &s.buf, s.meter) {
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

// shrink compacts n where that pays and solves it outright where that is cheap;
// then it returns nil.
func (s *costSearch) shrink(n *network.Network, f search.Effort) *network.Network {
	if n.Empty() {
		s.solved(n)
		return nil
	}
	if !n.WorthCompacting() {
		return n
	}
	n = n.Compact()
	for _, nodes := range elimination.Pieces(n) {
		if order := elimination.Order(n, nodes, f.Buckets); order != nil {
			elimination.Buckets(n, order, s.meter)
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

// tryRounding takes the plan that the reduced costs suggest if it is the best
// so far, and reports whether it proves that n holds none better.
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

// solved takes the plan of a network with no nodes left, if it is the best so
// far.
func (s *costSearch) solved(n *network.Network) {
	if n.Base < s.upper {
		s.offer(n, slices.Clone(s.best))
	}
}

// offer completes p for the tasks that n has eliminated, improves it and keeps
// it if it is the best so far.
func (s *costSearch) offer(n *network.Network, p problem.Plan) {
	n.Restore(p)
	s.im.improve(p, s.tasks, s.meter)
	if c := s.inst.CostOf(p, s.tasks); c < s.upper {
		s.upper = c
		copy(s.best, p)
	}
}

package optimizer

import (
	"cmp"
	"slices"
)

// costSearch finds the cheapest plan of one component of the cost network by
// branch and bound: best first, but each node it takes up it follows down to
// the end, so that plans turn up early and the proven bound still rises
// (a hybrid best-first search: Allouche et al., Anytime hybrid best-first
// search with tree decomposition for weighted CSP, 2015).
type costSearch struct {
	inst   *instance
	tasks  []int32
	meter  *meter
	buf    scratch
	im     *improver
	effort efforts

	// best is a plan for all tasks of which this search changes its own;
	// upper is what those cost in it.
	best  plan
	upper float64
	// lower is the proven bound on upper.
	lower float64

	root *network // simplified, never changed again
	openList
	// tooLarge means that there is no network, for want of memory: the plan
	// and the bound at hand are all there will be.
	tooLarge bool
}

// cut is the cost below which a plan is worth finding: better than the best by
// more than the precision promised.
func (s *costSearch) cut() float64 { return cutBelow(s.upper) }

// start simplifies the component and finds its first plans and bound. It leaves
// nothing open if that closes the gap.
func (s *costSearch) start(n *network) {
	n = s.simplify(n, s.effort.root)
	for before := inf; n != nil && s.upper < before && !s.meter.stopped; {
		before = s.upper
		s.plunge(n.clone())
		if s.upper < before {
			n = s.simplify(n, s.effort.again)
		}
	}
	if n == nil {
		s.lower = s.upper
		return
	}
	s.lower = min(max(s.lower, n.base), s.upper)
	s.root = n
	s.push(n.base, nil)
}

// plunge looks for a better plan by following the bound's opinion a tenth of
// the tasks at a time, those on which it is clearest first. It proves nothing.
func (s *costSearch) plunge(n *network) {
	for {
		order := make([]int32, 0, len(n.nodes))
		gap := make([]float64, len(n.nodes))
		for i := range n.nodes {
			if nd := &n.nodes[i]; !nd.gone {
				order = append(order, int32(i)) // #nosec G115 -- at most MaxTasks
				gap[i] = nd.runnerUp(nd.cheapest())
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(gap[b], gap[a]) })
		for _, i := range order[:(len(order)+9)/10] {
			nd := &n.nodes[i]
			nd.take(nd.cheapest())
		}
		n = s.simplify(n, s.effort.plunge)
		if n == nil || s.meter.stopped {
			return
		}
	}
}

// run searches until the optimum is proven or the meter stops it.
func (s *costSearch) run() {
	for !s.tooLarge && s.goOn(s.upper, s.meter) {
		next, ok := s.pop(s.cut())
		if !ok {
			break
		}
		if n := s.replay(next.decision); n != nil {
			s.dive(n, next)
		}
	}
	s.lower = min(s.upper, max(s.lower, s.least(s.cut())))
}

// dive follows one branch, always taking the most promising value of the task
// that costs the bound the most, and leaves the rest open. Stopped halfway, it
// leaves open what it was at.
func (s *costSearch) dive(n *network, at branch) {
	for {
		n = s.simplify(n, s.effort.branch)
		if n == nil {
			return
		}
		if s.meter.stopped {
			s.push(max(at.bound, n.base), at.decision)
			return
		}
		i, a := s.choose(n)
		task, value := n.nodes[i].task, n.nodes[i].values[a]
		if other := n.base + n.nodes[i].runnerUp(a); other < s.cut() {
			s.push(other, &decision{before: at.decision, task: task, value: value})
		}
		at.decision = &decision{before: at.decision, task: task, value: value, kind: take}
		n.nodes[i].take(a)
	}
}

// replay applies decisions to a copy of the root; nil is a dead end.
func (s *costSearch) replay(d *decision) *network {
	n := s.root.clone()
	node := make(map[int32]int, len(n.nodes))
	for i := range n.nodes {
		node[n.nodes[i].task] = i
	}
	for ; d != nil; d = d.before {
		nd := &n.nodes[node[d.task]]
		a := slices.Index(nd.values, d.value)
		switch {
		case nd.reduced[a] == inf:
			if d.kind == take {
				return nil
			}
		case d.kind == take:
			nd.take(a)
		default:
			nd.reduced[a] = inf
			nd.left--
		}
		if nd.left == 0 {
			return nil
		}
	}
	return n
}

// choose picks the node whose rounded value costs most over the bound, and that
// value.
func (s *costSearch) choose(n *network) (i, a int) {
	value, _ := n.round(&s.buf)
	worst := -1.0
	for k := range n.nodes {
		nd := &n.nodes[k]
		if nd.gone {
			continue
		}
		excess := nd.reduced[value[k]]
		for _, e := range nd.adj {
			p := &n.pairs[e]
			excess += p.at(value[p.u], value[p.v])
		}
		if excess > worst {
			worst, i = excess, k
		}
	}
	return i, int(value[i])
}

// simplify reduces n, raises its bound and looks for better plans. It returns
// nil when n holds no plan better than the best any more.
func (s *costSearch) simplify(n *network, f effort) *network {
	for k := 0; ; k++ {
		series := f.series
		if k == 0 {
			// sweeps soon rule out most values, and make it cheaper
			series = min(series, 4000)
		}
		if !eliminate(n, series, s.cut(), &s.buf, s.meter) {
			return nil
		}
		if n = s.shrink(n, f); n == nil {
			return nil
		}
		if k == f.sweeps || s.meter.stopped {
			return n
		}
		gap, left := s.cut()-n.base, n.valuesLeft()
		if !n.sweep(false, s.cut(), &s.buf, s.meter) || !n.sweep(true, s.cut(), &s.buf, s.meter) {
			return nil
		}
		if s.tryRounding(n) || !n.settleAll(s.cut()) {
			return nil
		}
		if s.cut()-n.base > (1-f.gain)*gap && 20*n.valuesLeft() > 19*left {
			k = f.sweeps - 1 // one more elimination, then stop
		}
	}
}

// shrink compacts n where that pays and solves it outright where that is cheap;
// then it returns nil.
func (s *costSearch) shrink(n *network, f effort) *network {
	if n.empty() {
		s.solved(n)
		return nil
	}
	if !n.worthCompacting() {
		return n
	}
	n = n.compact()
	for _, nodes := range pieces(n) {
		if order := eliminationOrder(n, nodes, f.buckets); order != nil {
			eliminateBuckets(n, order, s.meter)
		}
	}
	if n.base >= s.cut() {
		return nil
	}
	if n.empty() {
		s.solved(n)
		return nil
	}
	return n
}

// tryRounding takes the plan that the reduced costs suggest if it is the best
// so far, and reports whether it proves that n holds none better.
func (s *costSearch) tryRounding(n *network) bool {
	value, cost := n.round(&s.buf)
	if cost >= s.upper {
		return false
	}
	p := slices.Clone(s.best)
	for i := range n.nodes {
		if nd := &n.nodes[i]; !nd.gone {
			p[nd.task] = nd.values[value[i]]
		}
	}
	s.offer(n, p)
	return n.base >= s.cut()
}

// solved takes the plan of a network with no nodes left, if it is the best so
// far.
func (s *costSearch) solved(n *network) {
	if n.base < s.upper {
		s.offer(n, slices.Clone(s.best))
	}
}

// offer completes p for the tasks that n has eliminated, improves it and keeps
// it if it is the best so far.
func (s *costSearch) offer(n *network, p plan) {
	n.restore(p)
	s.im.improve(p, s.tasks, s.meter)
	if c := s.inst.costOf(p, s.tasks); c < s.upper {
		s.upper = c
		copy(s.best, p)
	}
}

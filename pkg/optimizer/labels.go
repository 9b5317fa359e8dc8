package optimizer

import (
	"cmp"
	"slices"
)

// labelSetting solves a bounded problem on a series-parallel graph by dynamic
// programming over Pareto fronts of cost and time: every arc of the graph, as it
// shrinks, holds for each pair of places at its ends the ways to do all that it
// stands for. A way that the lagrangian or the windows rule out, or that another
// is as good as in both respects, goes no further.
type labelSetting struct {
	s     *labelProblem
	inst  *instance
	net   *network
	nodes []int // sizes: places of each node, then 1 for the source and the sink
	label []label
	// front[arc][p·columns+q] lists labels by rising time and falling cost.
	front [][][]int32
	arcs  []arc
	// slack is the excess over the lagrangian's value from which on a way is
	// of no use.
	slack float64
	buf   []label
	work  int
}

// label is one way to do a part of the plan. It is made of two labels, either of
// which may be absent (-1), and an option, likewise.
type label struct {
	usd, hours float64
	// excess is what the way adds to the lagrangian's value.
	excess      float64
	left, right int32
	option      int32
}

// labelProblem is what label setting is to solve: to find the best plan in a box, which is better than those at hand.
type labelProblem struct {
	inst       *instance
	box        *box
	dual       *lagrangian // at the prices to bound with
	meter      *meter
	thresholds thresholds
	// timeCut and costCut are the makespan and the cost from which on a plan
	// is of no use.
	timeCut, costCut float64
	// byTime tells that the makespan is minimised, not the cost.
	byTime bool
	from   plan // any plan
	// keep is given the plans found, the best first, until it takes one.
	keep func(plan) bool
}

// solveByLabels finds the optimum if the graph is series-parallel and the fronts
// stay small, and reports whether it did: then the plan kept last is optimal.
func solveByLabels(s *labelProblem) bool {
	source, sink := int32(s.inst.nTask()), int32(s.inst.nTask()+1) // #nosec G115 -- at most MaxTasks
	arcs := terminalArcs(s.inst, source, sink)
	s.dual.enter(s.box)
	value := s.dual.evaluate(s.box, s.meter)
	ls := &labelSetting{s: s, inst: s.inst, net: s.dual.net, arcs: arcs}
	for i := range ls.net.nodes {
		ls.nodes = append(ls.nodes, len(ls.net.nodes[i].values))
	}
	ls.nodes = append(ls.nodes, 1, 1)
	steps, ok := reduceSeriesParallel(arcs, ls.nodes, source, sink)
	if !ok || s.meter.stopped {
		return false
	}
	ls.slack = s.costCut + s.dual.lambda*s.timeCut - value
	for i := range arcs {
		ls.front = append(ls.front, ls.transfer(i, source, sink))
	}
	for _, r := range steps {
		if !ls.step(s.box, r) {
			return false
		}
	}
	ls.finish()
	return true
}

// terminalArcs returns the edges, by node, in the order of inst.edges, and arcs
// from the source to the tasks without producers and from those without
// consumers to the sink.
func terminalArcs(inst *instance, source, sink int32) []arc {
	node := make([]int32, inst.nTask())
	for i, t := range inst.topo {
		node[t] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	arcs := make([]arc, 0, len(inst.edges)+2*len(node))
	for i := range inst.edges {
		arcs = append(arcs, arc{node[inst.edges[i].from], node[inst.edges[i].to]})
	}
	for i, t := range inst.topo {
		if len(inst.in.of(t)) == 0 {
			arcs = append(arcs, arc{source, int32(i)}) // #nosec G115 -- at most MaxTasks
		}
		if len(inst.out.of(t)) == 0 {
			arcs = append(arcs, arc{int32(i), sink}) // #nosec G115 -- at most MaxTasks
		}
	}
	return arcs
}

// transfer is the front of arc i as given: one label for each pair of places.
func (ls *labelSetting) transfer(i int, source, sink int32) [][]int32 {
	a := ls.arcs[i]
	rows, cols := ls.nodes[a.from], ls.nodes[a.to]
	front := make([][]int32, rows*cols)
	ids := make([]int32, rows*cols)
	var p *pair
	if a.from != source && a.to != sink {
		if e := ls.net.between(a.from, a.to); e >= 0 {
			p = &ls.net.pairs[e]
		}
	}
	for x := range rows {
		for y := range cols {
			l := label{left: -1, right: -1, option: -1}
			if p != nil {
				l.usd, l.hours = ls.moving(i, x, y)
				l.excess = max(0, p.at(int32(x), int32(y))) // #nosec G115 -- at most MaxPlaces
			}
			k := x*cols + y
			ids[k] = ls.add(l)
			front[k] = ids[k : k+1]
		}
	}
	return front
}

// moving is what edge e costs and takes between the places x and y of its ends.
func (ls *labelSetting) moving(e, x, y int) (usd, hours float64) {
	l := &ls.inst.edges[e]
	a := ls.arcs[e]
	k := int(ls.net.nodes[a.from].values[x])*ls.inst.nPlace + int(ls.net.nodes[a.to].values[y])
	return l.sumGiB * ls.inst.usd[k], l.maxGiB * ls.inst.hrs[k]
}

func (ls *labelSetting) add(l label) int32 {
	ls.label = append(ls.label, l)
	return int32(len(ls.label) - 1) // #nosec G115 -- bounded by step
}

// step carries out one reduction and reports whether there is room to go on.
func (ls *labelSetting) step(b *box, r reduction) bool {
	left, right := ls.arcs[r.left], ls.arcs[r.right]
	to := arc{left.from, right.to}
	ls.arcs = append(ls.arcs, to)
	rows, cols := ls.nodes[to.from], ls.nodes[to.to]
	front := make([][]int32, rows*cols)
	var done [][]int32
	if r.vertex >= 0 {
		done = ls.extend(b, ls.front[r.left], left, rows)
	}
	for x := range rows {
		for y := range cols {
			k := x*cols + y
			if r.vertex < 0 {
				ls.parallel(ls.front[r.left][k], ls.front[r.right][k])
			} else {
				ls.series(done, ls.front[r.right], ls.nodes[r.vertex], x, y, cols)
			}
			front[k] = ls.keep(ls.outside(to, x, y))
			// a label is sorted and searched for as well as made
			work := 16*len(ls.buf) + 1
			ls.work += work
			if len(ls.label) > ls.s.thresholds.labels || ls.work > ls.s.thresholds.labelWork || !ls.s.meter.spend(work) {
				return false
			}
		}
	}
	ls.front = append(ls.front, front)
	ls.front[r.left], ls.front[r.right] = nil, nil
	return true
}

// extend adds the options of the vertex at which arc a ends to its labels.
func (ls *labelSetting) extend(b *box, front [][]int32, a arc, rows int) [][]int32 {
	nd := &ls.net.nodes[a.to]
	after := ls.s.box.windows.at(ls.s.box.windows.after, nd.task)
	cols := len(nd.values)
	out := make([][]int32, rows*cols)
	for _, sp := range ls.inst.spansOf(nd.task) {
		y, ok := slices.BinarySearch(nd.values, sp.place)
		if !ok {
			continue
		}
		for x := range rows {
			ls.buf = ls.buf[:0]
			ls.extendWith(b, front[x*cols+y], sp, nd.task)
			rest := ls.before(a.from, x)
			rest.hours += after[sp.place]
			out[x*cols+y] = ls.keep(rest)
		}
	}
	return out
}

func (ls *labelSetting) extendWith(b *box, ids []int32, sp span, t int32) {
	for o := sp.lo; o < sp.hi; o++ {
		if !b.alive[o] {
			continue
		}
		opt := &ls.inst.opts[o]
		excess := ls.s.dual.excess(t, o)
		for _, i := range ids {
			l := &ls.label[i]
			ls.buf = append(ls.buf, label{
				usd: l.usd + opt.usd, hours: l.hours + opt.hours, excess: l.excess + excess,
				left: i, right: -1, option: o,
			})
		}
	}
}

// series gathers in buf the ways from place x over any place of the vertex in
// between to place y.
func (ls *labelSetting) series(done, after [][]int32, middle, x, y, cols int) {
	ls.buf = ls.buf[:0]
	for z := range middle {
		for _, i := range done[x*middle+z] {
			for _, j := range after[z*cols+y] {
				a, c := &ls.label[i], &ls.label[j]
				if excess := a.excess + c.excess; excess < ls.slack {
					ls.buf = append(ls.buf, label{
						usd: a.usd + c.usd, hours: a.hours + c.hours, excess: excess,
						left: i, right: j, option: -1,
					})
				}
			}
		}
	}
}

// parallel gathers in buf the ways to do both of two things at once: for each
// time that either front offers, the cheapest of each that is as fast.
func (ls *labelSetting) parallel(first, second []int32) {
	ls.buf = ls.buf[:0]
	if len(first) == 0 || len(second) == 0 {
		return
	}
	i, j := 0, 0
	for {
		a, c := &ls.label[first[i]], &ls.label[second[j]]
		ls.buf = append(ls.buf, label{
			usd: a.usd + c.usd, hours: max(a.hours, c.hours), excess: a.excess + c.excess,
			left: first[i], right: second[j], option: -1,
		})
		// allow more time for whichever offers something cheaper first
		moreA, moreC := i+1 < len(first), j+1 < len(second)
		switch {
		case moreA && (!moreC || ls.label[first[i+1]].hours <= ls.label[second[j+1]].hours):
			i++
		case moreC:
			j++
		default:
			return
		}
	}
}

// bound is what the rest of a plan adds at least to a way.
type bound struct {
	excess, hours float64
}

// outside bounds the rest of a plan around an arc with its ends at x and y.
func (ls *labelSetting) outside(a arc, x, y int) bound {
	out := ls.before(a.from, x)
	if int(a.to) < len(ls.net.nodes) {
		nd, w := &ls.net.nodes[a.to], ls.s.box.windows
		k := int(nd.task)*ls.inst.nPlace + int(nd.values[y])
		out.excess += nd.reduced[y]
		out.hours += w.quick[k] + w.after[k]
	}
	return out
}

// before bounds what leads up to an arc that starts at vertex v in place x, v
// included.
func (ls *labelSetting) before(v int32, x int) bound {
	if int(v) >= len(ls.net.nodes) {
		return bound{}
	}
	nd, w := &ls.net.nodes[v], ls.s.box.windows
	k := int(nd.task)*ls.inst.nPlace + int(nd.values[x])
	return bound{excess: nd.reduced[x], hours: w.start[k] + w.quick[k]}
}

// keep turns buf into a front of new labels, without those that cannot be part
// of a better plan given what the rest adds.
func (ls *labelSetting) keep(rest bound) []int32 {
	buf := slices.DeleteFunc(ls.buf, func(l label) bool {
		return l.excess+rest.excess >= ls.slack || l.hours+rest.hours >= ls.s.timeCut
	})
	slices.SortFunc(buf, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.hours, b.hours), cmp.Compare(a.usd, b.usd))
	})
	var ids []int32
	for i := range buf {
		if n := len(ids); n == 0 || buf[i].usd < ls.label[ids[n-1]].usd {
			ids = append(ids, ls.add(buf[i]))
		}
	}
	return ids
}

// finish takes the best way from the source to the sink: the cheapest is the
// last, the fastest within the budget the first that is cheap enough.
func (ls *labelSetting) finish() {
	last := ls.front[len(ls.front)-1][0]
	if !ls.s.byTime {
		slices.Reverse(last)
	}
	for _, i := range last {
		p := slices.Clone(ls.s.from)
		ls.restore(i, p)
		if ls.s.keep(p) {
			return
		}
	}
}

// restore writes the options that label i stands for to p.
func (ls *labelSetting) restore(i int32, p plan) {
	for i >= 0 {
		l := &ls.label[i]
		if l.option >= 0 {
			t, _ := slices.BinarySearch(ls.inst.first, l.option+1)
			p[t-1] = l.option - ls.inst.first[t-1]
		}
		if l.right >= 0 {
			ls.restore(l.right, p)
		}
		i = l.left
	}
}

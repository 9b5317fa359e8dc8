// Package labels solves a bounded problem on a series-parallel graph by label setting over Pareto fronts of cost and
// time.
package labels

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/pricing"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// labelSetting solves a bounded problem on a series-parallel graph by dynamic programming over Pareto fronts of cost
// and time. Every arc of the shrinking graph stands for a part of the original graph. For each pair of places at its
// ends it has the possible ways to execute that part. Ways that the lagrangian or the windows exclude, or that
// another way matches or beats in both cost and time, are dropped.
type labelSetting struct {
	s     *Problem
	inst  *problem.Instance
	net   *network.Network
	nodes []int // sizes: number of places of each node, then 1 for the source and the sink
	label []label
	// front[arc][p·columns+q] lists labels in the order of rising time and falling cost.
	front [][][]int32
	arcs  []arc
	// slack is the excess over the lagrangian's value from which on a way is of no use.
	slack float64
	buf   []label
	work  int
}

// label is one way to execute a part of the plan. It consists of two labels and an option; each of them may be absent
// (-1).
type label struct {
	usd, hours float64
	// excess is the amount that the way adds to the lagrangian's value.
	excess      float64
	left, right int32
	option      int32
}

// Problem is the problem for label setting: find the best plan in a box that is better than the given limits.
type Problem struct {
	Inst       *problem.Instance
	Box        *windows.Box
	Dual       *pricing.Lagrangian // with the prices for the bound
	Meter      *search.Meter
	Thresholds search.Thresholds
	// TimeCut and CostCut are the makespan and the cost from which on a plan is of no use.
	TimeCut, CostCut float64
	// ByTime means that the makespan is minimised instead of the cost.
	ByTime bool
	From   problem.Plan // any plan
	// Keep is called with the plans found, best first, until it accepts one.
	Keep func(problem.Plan) bool
}

// Solve finds the optimum if the graph is series-parallel and the fronts stay small. It reports whether it did: then
// the plan that Keep accepted is optimal.
func Solve(s *Problem) bool {
	source, sink := int32(s.Inst.NTask()), int32(s.Inst.NTask()+1) // #nosec G115 -- at most MaxTasks
	arcs := terminalArcs(s.Inst, source, sink)
	s.Dual.Enter(s.Box)
	value := s.Dual.Evaluate(s.Box, s.Meter)
	ls := &labelSetting{s: s, inst: s.Inst, net: s.Dual.Net, arcs: arcs}
	for i := range ls.net.Nodes {
		ls.nodes = append(ls.nodes, len(ls.net.Nodes[i].Values))
	}
	ls.nodes = append(ls.nodes, 1, 1)
	steps, ok := reduceSeriesParallel(arcs, ls.nodes, source, sink)
	if !ok || s.Meter.Stopped {
		return false
	}
	ls.slack = s.CostCut + s.Dual.Lambda*s.TimeCut - value
	for i := range arcs {
		ls.front = append(ls.front, ls.transfer(i, source, sink))
	}
	for _, r := range steps {
		if !ls.step(s.Box, r) {
			return false
		}
	}
	ls.finish()
	return true
}

// terminalArcs returns the edges as arcs between nodes, in the order of inst.Edges, then arcs from the source to the
// tasks without producers and from the tasks without consumers to the sink.
func terminalArcs(inst *problem.Instance, source, sink int32) []arc {
	node := make([]int32, inst.NTask())
	for i, t := range inst.Topo {
		node[t] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	arcs := make([]arc, 0, len(inst.Edges)+2*len(node))
	for i := range inst.Edges {
		arcs = append(arcs, arc{node[inst.Edges[i].From], node[inst.Edges[i].To]})
	}
	for i, t := range inst.Topo {
		if len(inst.In.Of(t)) == 0 {
			arcs = append(arcs, arc{source, int32(i)}) // #nosec G115 -- at most MaxTasks
		}
		if len(inst.Out.Of(t)) == 0 {
			arcs = append(arcs, arc{int32(i), sink}) // #nosec G115 -- at most MaxTasks
		}
	}
	return arcs
}

// transfer returns the front of original arc i: one label for each pair of places.
func (ls *labelSetting) transfer(i int, source, sink int32) [][]int32 {
	a := ls.arcs[i]
	rows, cols := ls.nodes[a.from], ls.nodes[a.to]
	front := make([][]int32, rows*cols)
	ids := make([]int32, rows*cols)
	var p *network.Pair
	if a.from != source && a.to != sink {
		if e := ls.net.Between(a.from, a.to); e >= 0 {
			p = &ls.net.Pairs[e]
		}
	}
	for x := range rows {
		for y := range cols {
			l := label{left: -1, right: -1, option: -1}
			if p != nil {
				l.usd, l.hours = ls.moving(i, x, y)
				l.excess = max(0, p.At(int32(x), int32(y))) // #nosec G115 -- at most MaxPlaces
			}
			k := x*cols + y
			ids[k] = ls.add(l)
			front[k] = ids[k : k+1]
		}
	}
	return front
}

// moving returns the cost and time of edge e between the places x and y of its ends.
func (ls *labelSetting) moving(e, x, y int) (usd, hours float64) {
	l := &ls.inst.Edges[e]
	a := ls.arcs[e]
	k := int(ls.net.Nodes[a.from].Values[x])*ls.inst.NPlace + int(ls.net.Nodes[a.to].Values[y])
	return l.SumGiB * ls.inst.USD[k], l.MaxGiB * ls.inst.Hrs[k]
}

func (ls *labelSetting) add(l label) int32 {
	ls.label = append(ls.label, l)
	return int32(len(ls.label) - 1) // #nosec G115 -- bounded by step
}

// step executes one reduction and reports whether the limits allow to continue.
func (ls *labelSetting) step(b *windows.Box, r reduction) bool {
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
			// each label is also sorted and searched
			work := 16*len(ls.buf) + 1
			ls.work += work
			if len(ls.label) > ls.s.Thresholds.Labels || ls.work > ls.s.Thresholds.LabelWork ||
				!ls.s.Meter.Spend(work) {
				return false
			}
		}
	}
	ls.front = append(ls.front, front)
	ls.front[r.left], ls.front[r.right] = nil, nil
	return true
}

// extend adds the options of the vertex at the end of arc a to its labels.
func (ls *labelSetting) extend(b *windows.Box, front [][]int32, a arc, rows int) [][]int32 {
	nd := &ls.net.Nodes[a.to]
	after := ls.s.Box.Windows.At(ls.s.Box.Windows.After, nd.Task)
	cols := len(nd.Values)
	out := make([][]int32, rows*cols)
	for _, sp := range ls.inst.SpansOf(nd.Task) {
		y, ok := slices.BinarySearch(nd.Values, sp.Place)
		if !ok {
			continue
		}
		for x := range rows {
			ls.buf = ls.buf[:0]
			ls.extendWith(b, front[x*cols+y], sp, nd.Task)
			rest := ls.before(a.from, x)
			rest.hours += after[sp.Place]
			out[x*cols+y] = ls.keep(rest)
		}
	}
	return out
}

func (ls *labelSetting) extendWith(b *windows.Box, ids []int32, sp problem.Span, t int32) {
	for o := sp.Lo; o < sp.Hi; o++ {
		if !b.Alive[o] {
			continue
		}
		opt := &ls.inst.Opts[o]
		excess := ls.s.Dual.Excess(t, o)
		for _, i := range ids {
			l := &ls.label[i]
			ls.buf = append(ls.buf, label{
				usd: l.usd + opt.USD, hours: l.hours + opt.Hours, excess: l.excess + excess,
				left: i, right: -1, option: o,
			})
		}
	}
}

// series collects in buf the ways from place x over any place of the middle vertex to place y.
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

// parallel collects in buf the ways to execute two parts at the same time: for each time in either front, the
// cheapest label of each front that is at least as fast.
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
		// give more time to the front whose next cheaper label comes first
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

// bound is a lower bound on the amount that the rest of a plan adds to a way.
type bound struct {
	excess, hours float64
}

// outside returns a bound of the rest of a plan around an arc with its ends at places x and y.
func (ls *labelSetting) outside(a arc, x, y int) bound {
	out := ls.before(a.from, x)
	if int(a.to) < len(ls.net.Nodes) {
		nd, w := &ls.net.Nodes[a.to], ls.s.Box.Windows
		k := int(nd.Task)*ls.inst.NPlace + int(nd.Values[y])
		out.excess += nd.Reduced[y]
		out.hours += w.Quick[k] + w.After[k]
	}
	return out
}

// before returns a bound of everything up to an arc that starts at vertex v in place x, including v.
func (ls *labelSetting) before(v int32, x int) bound {
	if int(v) >= len(ls.net.Nodes) {
		return bound{}
	}
	nd, w := &ls.net.Nodes[v], ls.s.Box.Windows
	k := int(nd.Task)*ls.inst.NPlace + int(nd.Values[x])
	return bound{excess: nd.Reduced[x], hours: w.Start[k] + w.Quick[k]}
}

// keep converts buf to a front of new labels. It drops those that cannot be part of a better plan, given the bound of
// the rest.
func (ls *labelSetting) keep(rest bound) []int32 {
	buf := slices.DeleteFunc(ls.buf, func(l label) bool {
		return l.excess+rest.excess >= ls.slack || l.hours+rest.hours >= ls.s.TimeCut
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

// finish offers the ways from the source to the sink, best first: from the cheapest, which is the last, or from the
// fastest, which is the first.
func (ls *labelSetting) finish() {
	last := ls.front[len(ls.front)-1][0]
	if !ls.s.ByTime {
		slices.Reverse(last)
	}
	for _, i := range last {
		p := slices.Clone(ls.s.From)
		ls.restore(i, p)
		if ls.s.Keep(p) {
			return
		}
	}
}

// restore writes the options of label i to p.
func (ls *labelSetting) restore(i int32, p problem.Plan) {
	for i >= 0 {
		l := &ls.label[i]
		if l.option >= 0 {
			t, _ := slices.BinarySearch(ls.inst.First, l.option+1)
			p[t-1] = l.option - ls.inst.First[t-1]
		}
		if l.right >= 0 {
			ls.restore(l.right, p)
		}
		i = l.left
	}
}

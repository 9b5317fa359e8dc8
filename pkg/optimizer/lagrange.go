package optimizer

import "slices"

// lagrangian bounds cost and makespan together. With a price of lambda USD an
// hour on the makespan, and the makespan bounded from below by a flow,
//
//	value ≤ cost(x) + lambda · makespan(x)   for every plan x in the box,
//
// where value is the bound of a cost network in which every task and transfer
// costs its USD and lambda × flow × its hours. A pricer finds the best lambda
// and flow.
type lagrangian struct {
	inst   *instance
	lambda float64
	flow   flow

	// net has a node for each task, in topological order, whose values are
	// places; nodeOf is a task's node, linkOf the edge behind a pair.
	net    *network
	nodeOf []int32
	// dense has a node's values be all places, those without an option ruled
	// out, and the pairs refer to the instance's matrices: for networks whose
	// own tables would take too much memory.
	dense  bool
	linkOf []int32
	// option is the best option of each value of each node at the present
	// prices.
	option [][]int32
	// priced is, by option, what it costs at the present prices.
	priced []float64
	buf    scratch
}

func newLagrangian(inst *instance, th thresholds) *lagrangian {
	l := &lagrangian{
		inst: inst, priced: make([]float64, len(inst.opts)), nodeOf: make([]int32, inst.nTask()),
		flow: flow{task: make([]float64, inst.nTask()), edge: make([]float64, len(inst.edges))},
	}
	for i, t := range inst.topo {
		l.nodeOf[t] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	entries := 0
	for i := range inst.edges {
		e := &inst.edges[i]
		entries += len(inst.spansOf(e.from)) * len(inst.spansOf(e.to))
	}
	l.dense = entries > th.tableEntries
	return l
}

// flow is a mixture of paths through the dependency graph: how much of it goes
// through each task and along each edge. Every path's time is at most the
// makespan, hence so is the flow's,
//
//	Σ task[t]·hours(t) + Σ edge[e]·transfer(e)  ≤  makespan,
//
// whatever the plan. That turns the maximum over exponentially many paths in
// equation 2 into a sum, which goes with costs.
type flow struct {
	task, edge []float64
}

// enter prepares for the options left in b. What earlier rounds have learnt
// about the places still there is kept.
func (l *lagrangian) enter(b *box) {
	old := l.net
	if old != nil && l.dense {
		return // the places are always the same
	}
	l.net = &network{nodes: make([]node, len(l.inst.topo))}
	l.option = make([][]int32, len(l.inst.topo))
	l.linkOf = l.linkOf[:0]
	for i, t := range l.inst.topo {
		nd := &l.net.nodes[i]
		nd.task = t
		nd.values = l.places(b, t)
		nd.left = int32(len(nd.values)) // #nosec G115 -- at most MaxPlaces
		nd.reduced = make([]float64, len(nd.values))
		l.option[i] = make([]int32, len(nd.values))
	}
	for _, t := range l.inst.topo {
		for _, e := range l.inst.out.of(t) {
			if edge := &l.inst.edges[e]; edge.sumGiB > 0 {
				l.connect(edge)
				l.linkOf = append(l.linkOf, e)
			}
		}
	}
	if old != nil {
		l.net.inherit(old)
	}
}

// places lists the places that are values of task t's node.
func (l *lagrangian) places(b *box, t int32) []int32 {
	var list []int32
	if l.dense {
		for p := range int32(l.inst.nPlace) { // #nosec G115 -- at most MaxPlaces
			list = append(list, p)
		}
		return list
	}
	for _, sp := range l.inst.spansOf(t) {
		if slices.Contains(b.alive[sp.lo:sp.hi], true) {
			list = append(list, sp.place)
		}
	}
	return list
}

func (l *lagrangian) connect(edge *link) {
	n := l.net
	u, v := l.nodeOf[edge.from], l.nodeOf[edge.to]
	if l.dense {
		n.connect(u, v, l.inst.usd)
		p := &n.pairs[len(n.pairs)-1]
		p.transposed, p.scale = l.inst.usdT, edge.sumGiB
		p.second, p.secondTrans = l.inst.hrs, l.inst.hrsT
		return
	}
	n.connect(u, v, make([]float64, len(n.nodes[u].values)*len(n.nodes[v].values)))
}

// evaluate computes value for the present lambda and flow. Afterwards priced
// less the best of its node plus the node's reduced cost says what each option
// adds to it at least. Stopped halfway, it knows nothing: value is -Inf.
func (l *lagrangian) evaluate(b *box, m *meter) (value float64) {
	n := l.net
	n.base = 0
	for i, t := range l.inst.topo {
		l.priceOptions(b, int32(i), t) // #nosec G115 -- at most MaxTasks
	}
	for e := range n.pairs {
		l.pricePair(e)
	}
	for e := range n.pairs {
		p := &n.pairs[e]
		addTo(n.nodes[p.u].reduced, p.toU)
		addTo(n.nodes[p.v].reduced, p.toV)
	}
	// the first sweep makes all residuals non-negative again under the new
	// prices, which only then bound anything
	n.sweep(false, inf, &l.buf, m)
	n.sweep(true, inf, &l.buf, m)
	n.settleAll(inf)
	if m.stopped {
		return -inf
	}
	return n.base
}

func (l *lagrangian) priceOptions(b *box, i, t int32) {
	nd := &l.net.nodes[i]
	perHour := l.lambda * l.flow.task[t]
	for a := range nd.reduced {
		nd.reduced[a] = inf
	}
	a := 0
	for _, sp := range l.inst.spansOf(t) {
		for a < len(nd.values) && nd.values[a] < sp.place {
			a++
		}
		if a == len(nd.values) || nd.values[a] != sp.place {
			continue
		}
		for o := sp.lo; o < sp.hi; o++ {
			if !b.alive[o] {
				continue
			}
			opt := &l.inst.opts[o]
			l.priced[o] = opt.usd + perHour*opt.hours
			if l.priced[o] < nd.reduced[a] {
				nd.reduced[a] = l.priced[o]
				l.option[i][a] = o
			}
		}
	}
}

func (l *lagrangian) pricePair(e int) {
	p := &l.net.pairs[e]
	edge := &l.inst.edges[l.linkOf[e]]
	perGiB := l.lambda * l.flow.edge[l.linkOf[e]] * edge.maxGiB
	if l.dense {
		p.more = perGiB
		return
	}
	to := l.net.nodes[p.v].values
	for a, from := range l.net.nodes[p.u].values {
		usd := l.inst.usd[int(from)*l.inst.nPlace:][:l.inst.nPlace]
		hrs := l.inst.hrs[int(from)*l.inst.nPlace:][:l.inst.nPlace]
		row := p.table[a*len(to):][:len(to)]
		for b, q := range to {
			row[b] = edge.sumGiB*usd[q] + perGiB*hrs[q]
		}
	}
}

func addTo(dst, src []float64) {
	for i, x := range src {
		dst[i] += x
	}
}

// excess is what option o of task t adds to value at least.
func (l *lagrangian) excess(t, o int32) float64 {
	i := l.nodeOf[t]
	nd := &l.net.nodes[i]
	a, ok := slices.BinarySearch(nd.values, l.inst.opts[o].place)
	if !ok {
		return inf
	}
	return nd.reduced[a] + l.priced[o] - l.priced[l.option[i][a]]
}

// round returns the plan that the network suggests.
func (l *lagrangian) round() plan {
	value, _ := l.net.round(&l.buf)
	p := make(plan, len(l.nodeOf))
	for i, t := range l.inst.topo {
		p[t] = l.option[i][value[i]] - l.inst.first[t]
	}
	return p
}

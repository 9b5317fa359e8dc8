package optimizer

// messages are what a session has learnt of the cost network of its model: what
// soft local consistency has moved from each transfer to the tasks at its ends.
// Whatever has changed since, one pass forward and one back make of it a bound
// that holds, and one as tight as many passes from nothing would give, since
// little has changed.
type messages struct {
	net *network
	// fresh means that nothing has been learnt yet.
	fresh bool
	buf   scratch
}

// newMessages makes a network whose values are all places; transfers refer to
// the instance's own matrix.
func newMessages(inst *instance) *messages {
	n := &network{nodes: make([]node, inst.nTask())}
	local := make([]int32, inst.nTask())
	for i, t := range inst.topo {
		local[t] = int32(i) // #nosec G115 -- at most MaxTasks
		n.nodes[i] = node{task: t, values: make([]int32, inst.nPlace), reduced: make([]float64, inst.nPlace)}
	}
	for _, t := range inst.topo {
		for _, e := range inst.out.of(t) {
			l := &inst.edges[e]
			if l.sumGiB == 0 {
				continue
			}
			n.connect(local[l.from], local[l.to], inst.usd)
			p := &n.pairs[len(n.pairs)-1]
			p.transposed, p.scale = inst.usdT, l.sumGiB
		}
	}
	return &messages{net: n, fresh: true}
}

// narrow looks for a plan better than the given ones and clears c.alive for the
// options that no plan better than the best takes. It returns that plan, and
// whether it is proven to be the best there is. Of the options at one place only
// the first, the cheapest, counts.
func (ms *messages) narrow(c *costSolver, starts []plan) (best plan, cost float64, proven bool) {
	cost = inf
	for _, p := range starts {
		if x := c.inst.cost(p); x < cost {
			best, cost = p, x
		}
	}
	ms.raise(c.inst, cutBelow(cost), c.meter)
	if c.meter.stopped {
		ms.fresh = true
		return best, cost, false
	}
	if ms.net.base < cutBelow(cost) {
		p := ms.round(c.inst)
		c.im.improve(p, c.inst.topo, c.meter)
		if x := c.inst.cost(p); x < cost {
			best, cost = p, x
		}
	}
	return best, cost, !ms.filter(c.inst, c.alive, cutBelow(cost)-ms.net.base)
}

// raise brings the bound, the network's base, up to date with what the options
// cost now.
func (ms *messages) raise(inst *instance, cut float64, m *meter) {
	n := ms.net
	n.base = 0
	for i := range n.nodes {
		nd := &n.nodes[i]
		nd.left = int32(inst.nPlace) // #nosec G115 -- at most MaxPlaces
		for p := range nd.reduced {
			nd.reduced[p] = inf
		}
		for _, sp := range inst.spansOf(nd.task) {
			nd.reduced[sp.place] = inst.opts[sp.lo].usd
		}
	}
	for e := range n.pairs {
		p := &n.pairs[e]
		addTo(n.nodes[p.u].reduced, p.toU)
		addTo(n.nodes[p.v].reduced, p.toV)
	}
	most := 3
	if ms.fresh {
		most = 30
	}
	ms.fresh = false
	for k, before := 0, -inf; k < most && n.base < cut; k++ {
		// no value is ruled out on the way: what is moved must hold for the
		// options that are blocked today as well
		n.sweep(false, inf, &ms.buf, m)
		n.sweep(true, inf, &ms.buf, m)
		if cut-n.base > 0.9*(cut-before) {
			break
		}
		before = n.base
	}
	n.settleAll(inf)
}

// round is the plan that the reduced costs suggest.
func (ms *messages) round(inst *instance) plan {
	value, _ := ms.net.round(&ms.buf)
	p := make(plan, inst.nTask())
	for i := range ms.net.nodes {
		t := ms.net.nodes[i].task
		for _, sp := range inst.spansOf(t) {
			if sp.place == value[i] {
				p[t] = sp.lo - inst.first[t]
			}
		}
	}
	return p
}

// filter clears alive for the options whose reduced cost is slack or more, and
// reports whether every task has one left.
func (ms *messages) filter(inst *instance, alive []bool, slack float64) bool {
	for i := range ms.net.nodes {
		nd := &ms.net.nodes[i]
		left := false
		for _, sp := range inst.spansOf(nd.task) {
			alive[sp.lo] = alive[sp.lo] && nd.reduced[sp.place] < slack
			left = left || alive[sp.lo]
		}
		if !left {
			return false
		}
	}
	return true
}

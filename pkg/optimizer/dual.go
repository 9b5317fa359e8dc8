package optimizer

// scratch holds buffers that the steps on one network reuse.
type scratch struct {
	h, offer, bound []float64
	value           []int32
}

// sweep visits the nodes in order, or backwards, and raises base. Each node
// moves the least of its reduced costs to base, then hands an equal share of
// what is left to its pairs ahead, which hand on to the nodes there as much as
// they can. Forward and backward sweeps in turn are sequential tree-reweighted
// message passing (Kolmogorov, Convergent tree-reweighted message passing for
// energy minimization, 2006), written so that after every step base and the
// reduced costs are bounds that hold.
//
// Values that cannot be in a solution below cut are ruled out. It reports false
// when no solution below cut is left.
func (n *network) sweep(backward bool, cut float64, s *scratch, m *meter) bool {
	for k := range n.nodes {
		i := int32(k) // #nosec G115 -- at most MaxTasks
		if backward {
			i = int32(len(n.nodes)-1) - i // #nosec G115 -- at most MaxTasks
		}
		if n.nodes[i].gone || m.stopped {
			continue
		}
		if !n.settle(i, cut) {
			return false
		}
		n.handOn(i, backward, s, m)
	}
	return true
}

// settle moves the least reduced cost of node i to base and rules out its
// values that cannot be in a solution below cut. It reports false when none is
// left.
func (n *network) settle(i int32, cut float64) bool {
	nd := &n.nodes[i]
	least := inf
	for _, r := range nd.reduced {
		if r < least {
			least = r
		}
	}
	n.base += least
	if n.base >= cut || least == inf {
		return false
	}
	slack := cut - n.base
	for a, r := range nd.reduced {
		if r == inf {
			continue
		}
		r -= least
		if r >= slack {
			r = inf
			nd.left--
		}
		nd.reduced[a] = r
	}
	return true
}

// settleAll settles every node.
func (n *network) settleAll(cut float64) bool {
	for i := range n.nodes {
		if !n.nodes[i].gone && !n.settle(int32(i), cut) { // #nosec G115 -- at most MaxTasks
			return false
		}
	}
	return true
}

// handOn passes node i's reduced costs to the nodes after it, or before it. It
// keeps a share back where more pairs lie behind than ahead, so that as much
// can return.
func (n *network) handOn(i int32, backward bool, s *scratch, m *meter) {
	nd := &n.nodes[i]
	ahead, behind := 0, 0
	for _, e := range nd.adj {
		if n.pairs[e].ahead(i, backward) {
			ahead++
		} else {
			behind++
		}
	}
	if ahead == 0 {
		return
	}
	share := 1 / float64(max(ahead, behind))
	s.h = grow(s.h, len(nd.reduced))
	for _, e := range nd.adj {
		if !n.pairs[e].ahead(i, backward) {
			continue
		}
		sd := n.side(e, i)
		for a, r := range nd.reduced {
			s.h[a] = share*r - sd.toSelf[a]
		}
		m.spend(n.offer(&sd, s))
		for a, r := range nd.reduced {
			if r < inf {
				sd.toSelf[a] -= share * r
			}
		}
	}
	kept := 1 - share*float64(ahead)
	if ahead >= behind {
		kept = 0
	}
	for a, r := range nd.reduced {
		if r < inf {
			nd.reduced[a] = kept * r
		}
	}
}

// ahead tells whether the pair leads from node i in the direction of the sweep.
func (p *pair) ahead(i int32, backward bool) bool {
	return (p.u+p.v-i > i) != backward
}

// offer gives the peer all that the pair and h allow: afterwards every value of
// the peer has a partner among self's values at no residual cost.
func (n *network) offer(sd *side, s *scratch) int {
	peer := &n.nodes[sd.peer]
	s.offer = grow(s.offer, len(sd.toPeer))
	work := sd.push(s.offer, s.h)
	for b, y := range s.offer {
		peer.reduced[b] += y - sd.toPeer[b]
		sd.toPeer[b] = y
	}
	return work
}

// round chooses a value for every node in turn, the cheapest given the bound's
// view of the nodes after it and the values of those before it. It returns the
// values and what they cost together. The values are valid until the next call.
func (n *network) round(s *scratch) (value []int32, cost float64) {
	if cap(s.value) < len(n.nodes) {
		s.value = make([]int32, len(n.nodes))
	}
	value = s.value[:len(n.nodes)]
	cost = n.base
	for i := range n.nodes {
		nd := &n.nodes[i]
		if nd.gone {
			continue
		}
		s.h = grow(s.h, len(nd.reduced))
		copy(s.h, nd.reduced)
		for _, e := range nd.adj {
			sd := n.side(e, int32(i)) // #nosec G115 -- at most MaxTasks
			if int(sd.peer) < i {
				back := sd.reversed()
				back.addRow(s.h, int(value[sd.peer]))
			}
		}
		best := 0
		for a, x := range s.h {
			if x < s.h[best] {
				best = a
			}
		}
		value[i] = int32(best) // #nosec G115 -- at most MaxCandidates
		cost += s.h[best]
	}
	return value, cost
}

// empty tells whether all nodes are gone.
func (n *network) empty() bool {
	for i := range n.nodes {
		if !n.nodes[i].gone {
			return false
		}
	}
	return true
}

// valuesLeft counts the values of all nodes not ruled out.
func (n *network) valuesLeft() int {
	k := 0
	for i := range n.nodes {
		if !n.nodes[i].gone {
			k += int(n.nodes[i].left)
		}
	}
	return k
}

// worthCompacting tells whether much of the network is gone or ruled out.
func (n *network) worthCompacting() bool {
	total := 0
	for i := range n.nodes {
		total += len(n.nodes[i].values)
	}
	return 4*n.valuesLeft() < 3*total
}

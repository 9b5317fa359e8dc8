package network

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Scratch holds buffers that operations on a network reuse.
type Scratch struct {
	H, Offer, Bound []float64
	value           []int32
}

// Sweep visits the nodes in order, or backwards, and raises base. Each node moves its lowest reduced cost to base.
// Then it distributes the rest equally to its pairs ahead, which pass on as much as possible to the nodes there.
// Alternating forward and backward sweeps are sequential tree-reweighted message passing (Kolmogorov, Convergent
// tree-reweighted message passing for energy minimization, 2006), written such that base and the reduced costs are
// valid bounds after every step.
//
// Values that cannot be in a solution below cut are excluded. Sweep returns false if no solution below cut is left.
func (n *Network) Sweep(backward bool, cut float64, s *Scratch, m *search.Meter) bool {
	for k := range n.Nodes {
		i := int32(k) // #nosec G115 -- at most MaxTasks
		if backward {
			i = int32(len(n.Nodes)-1) - i // #nosec G115 -- at most MaxTasks
		}
		if n.Nodes[i].Gone || m.Stopped {
			continue
		}
		if !n.Settle(i, cut) {
			return false
		}
		n.handOn(i, backward, s, m)
	}
	return true
}

// Settle moves the lowest reduced cost of node i to base and excludes its values that cannot be in a solution below
// cut. It returns false if none is left.
func (n *Network) Settle(i int32, cut float64) bool {
	nd := &n.Nodes[i]
	least := search.Inf
	for _, r := range nd.Reduced {
		if r < least {
			least = r
		}
	}
	n.Base += least
	if n.Base >= cut || least == search.Inf {
		return false
	}
	slack := cut - n.Base
	for a, r := range nd.Reduced {
		if r == search.Inf {
			continue
		}
		r -= least
		if r >= slack {
			r = search.Inf
			nd.Left--
		}
		nd.Reduced[a] = r
	}
	return true
}

// SettleAll settles every node.
func (n *Network) SettleAll(cut float64) bool {
	for i := range n.Nodes {
		if !n.Nodes[i].Gone && !n.Settle(int32(i), cut) { // #nosec G115 -- at most MaxTasks
			return false
		}
	}
	return true
}

// handOn passes node i's reduced costs to the nodes after it (or before it, if backward). If it has more pairs behind
// than ahead, it keeps a share, so that as much can be passed back.
func (n *Network) handOn(i int32, backward bool, s *Scratch, m *search.Meter) {
	nd := &n.Nodes[i]
	ahead, behind := 0, 0
	for _, e := range nd.Adj {
		if n.Pairs[e].ahead(i, backward) {
			ahead++
		} else {
			behind++
		}
	}
	if ahead == 0 {
		return
	}
	share := 1 / float64(max(ahead, behind))
	s.H = search.Grow(s.H, len(nd.Reduced))
	for _, e := range nd.Adj {
		if !n.Pairs[e].ahead(i, backward) {
			continue
		}
		sd := n.Side(e, i)
		for a, r := range nd.Reduced {
			s.H[a] = share*r - sd.ToSelf[a]
		}
		m.Spend(n.offer(&sd, s))
		for a, r := range nd.Reduced {
			if r < search.Inf {
				sd.ToSelf[a] -= share * r
			}
		}
	}
	kept := 1 - share*float64(ahead)
	if ahead >= behind {
		kept = 0
	}
	for a, r := range nd.Reduced {
		if r < search.Inf {
			nd.Reduced[a] = kept * r
		}
	}
}

// ahead reports whether the pair leads from node i in the direction of the sweep.
func (p *Pair) ahead(i int32, backward bool) bool {
	return (p.U+p.V-i > i) != backward
}

// offer moves to the peer all cost that the pair and h allow. Afterwards every value of the peer has a partner among
// self's values with zero residual cost.
func (n *Network) offer(sd *Side, s *Scratch) int {
	peer := &n.Nodes[sd.Peer]
	s.Offer = search.Grow(s.Offer, len(sd.ToPeer))
	work := sd.Push(s.Offer, s.H)
	for b, y := range s.Offer {
		peer.Reduced[b] += y - sd.ToPeer[b]
		sd.ToPeer[b] = y
	}
	return work
}

// Round chooses a value for every node in turn: the cheapest, given the bounds for the nodes after it and the values
// of those before it. It returns the values and their total cost. The values are valid until the next call.
func (n *Network) Round(s *Scratch) (value []int32, cost float64) {
	if cap(s.value) < len(n.Nodes) {
		s.value = make([]int32, len(n.Nodes))
	}
	value = s.value[:len(n.Nodes)]
	cost = n.Base
	for i := range n.Nodes {
		nd := &n.Nodes[i]
		if nd.Gone {
			continue
		}
		s.H = search.Grow(s.H, len(nd.Reduced))
		copy(s.H, nd.Reduced)
		for _, e := range nd.Adj {
			sd := n.Side(e, int32(i)) // #nosec G115 -- at most MaxTasks
			if int(sd.Peer) < i {
				back := sd.Reversed()
				back.AddRow(s.H, int(value[sd.Peer]))
			}
		}
		best := 0
		for a, x := range s.H {
			if x < s.H[best] {
				best = a
			}
		}
		value[i] = int32(best) // #nosec G115 -- at most MaxCandidates
		cost += s.H[best]
	}
	return value, cost
}

// Empty reports whether all nodes are removed.
func (n *Network) Empty() bool {
	for i := range n.Nodes {
		if !n.Nodes[i].Gone {
			return false
		}
	}
	return true
}

// ValuesLeft returns the number of values of all nodes that are not excluded.
func (n *Network) ValuesLeft() int {
	k := 0
	for i := range n.Nodes {
		if !n.Nodes[i].Gone {
			k += int(n.Nodes[i].Left)
		}
	}
	return k
}

// WorthCompacting reports whether a large part of the network is removed or excluded.
func (n *Network) WorthCompacting() bool {
	total := 0
	for i := range n.Nodes {
		total += len(n.Nodes[i].Values)
	}
	return 4*n.ValuesLeft() < 3*total
}

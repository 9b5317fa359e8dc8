package placement

// blockSize is the number of machines of a rack that are summarised together, so that the search can skip full
// blocks.
const blockSize = 32

func (r *rack) block(b, dims int) []int64 {
	return r.blocks[b*dims : (b+1)*dims : (b+1)*dims]
}

// path finds the shortest path for an instance of an app, A→G→R→N→t: the first machine with room. Machines cost in
// the order of their numbers, so machines in use fill up first. It returns Unplaced if there is no path.
//
// If except is a machine, it is skipped, and the edges learn nothing from the search, because the search is one of
// several that may all be undone.
func (n *Network) path(app, except int32) int32 {
	if n.edges[app] == nil {
		n.edges[app] = make([]edge, len(n.racks))
	}
	for len(n.edges[app]) < len(n.racks) {
		n.edges[app] = append(n.edges[app], edge{})
	}
	need := n.p.Apps[app].Demand
	for r := range n.racks {
		rack, e := &n.racks[r], &n.edges[app][r]
		epoch := rack.epoch
		if n.places != nil {
			epoch = n.epoch // with groups, a change anywhere may allow an instance here
		}
		if e.epoch != epoch || n.o.Forget {
			*e = edge{epoch: epoch}
		}
		if int(e.next) >= len(rack.machines) || !within(need, rack.most) {
			continue
		}
		if m := n.inRack(rack, e, app, except); m != Unplaced {
			return m
		}
	}
	return Unplaced
}

// inRack finds the first machine of a rack with room and advances the edge to it.
func (n *Network) inRack(rack *rack, e *edge, app, except int32) int32 {
	need := n.p.Apps[app].Demand
	learn := except == Unplaced
	for at := int(e.next); at < len(rack.machines); {
		block := rack.block(at/blockSize, n.dims)
		end := min((at/blockSize+1)*blockSize, len(rack.machines))
		if within(need, block) {
			roomy := false
			for ; at < end; at++ {
				m := rack.machines[at]
				if !within(need, n.freeOf(m)) {
					continue
				}
				roomy = true
				if m != except && n.allows(m, app) {
					if learn {
						e.next = int32(at) //nolint:gosec // machines in memory
					}
					return m
				}
			}
			if !roomy && learn {
				n.refresh(rack, end-1)
			}
		}
		at = end
		if learn {
			e.next = int32(at) //nolint:gosec // machines in memory
		}
	}
	return Unplaced
}

// refresh recomputes the summary of a block, and then that of its rack.
func (n *Network) refresh(rack *rack, last int) {
	b := last / blockSize
	block := rack.block(b, n.dims)
	old := n.space.room
	copy(old, block)
	clear(block)
	for _, m := range rack.machines[b*blockSize : last+1] {
		for d, x := range n.freeOf(m) {
			block[d] = max(block[d], x)
		}
	}
	leads := false
	for d, x := range old {
		leads = leads || x == rack.most[d] && block[d] < x
	}
	if !leads {
		return // the rack's maximum does not come from this block
	}
	clear(rack.most)
	for i := 0; i < len(rack.blocks); i += n.dims {
		for d, x := range rack.blocks[i : i+n.dims] {
			rack.most[d] = max(rack.most[d], x)
		}
	}
}

package scheduler

// predicates keeps tasks off nodes whose labels, taints or other tasks do not suit them. Resources are looked at
// whether or not a policy has this plugin.
type predicates struct{}

func (predicates) Open(s *Session) {
	s.Require(suits, func(c *Class, n *NodeInfo, later bool) string {
		if n.labels != nil && !n.stands(c.Spec, later) {
			return "tasks there and this one do not stand each other"
		}
		return ""
	})
}

// suits says why a task of a class does not suit a node, whatever runs there.
func suits(c *Class, n *NodeInfo) string {
	for k, v := range c.Spec.Selector {
		if n.Node.Labels[k] != v {
			return "its label " + k + " is not " + quote(v)
		}
	}
	for i := range c.Spec.Affinity {
		if a := &c.Spec.Affinity[i]; a.Weight == 0 && !a.Holds(n.Node.Labels) {
			return "its label " + a.Key + " is not what the task asks for"
		}
	}
	for _, t := range n.Node.Taints {
		if !t.Soft && !c.Spec.Stands(t) {
			return "its taint " + t.Key + " is not tolerated"
		}
	}
	return ""
}

// nodeOrder prefers nodes that tasks ask for, and spreads.
type nodeOrder struct{ least, balanced, preferences float64 }

func newNodeOrder(a Args) Plugin {
	return nodeOrder{a.Number("leastAllocated", 1), a.Number("balanced", 1), a.Number("preferences", 1)}
}

func (p nodeOrder) Open(s *Session) {
	if p.preferences != 0 {
		s.Prefer(func(c *Class, n *NodeInfo) float64 { return p.preferences * preference(c, n) })
	}
	if p.least == 0 && p.balanced == 0 {
		return
	}
	inverse := inverses(s)
	s.OrderNodes(func(c *Class, n *NodeInfo) float64 {
		inv := &inverse[n.Index]
		sum, squares, count := 0.0, 0.0, 0.0
		for r, need := range c.request {
			if need > 0 {
				left := float64(n.Idle[r]-need) * inv[r]
				sum += left
				squares += left * left
				count++
			}
		}
		if count == 0 {
			return 0
		}
		mean := sum / count
		return 100 * (p.least*mean + p.balanced*(1-(squares/count-mean*mean)))
	})
}

// inverses are one over the capacity of each node, so that scores need no division.
func inverses(s *Session) [][MaxResources]float64 {
	out := make([][MaxResources]float64, len(s.Nodes))
	for i, n := range s.Nodes {
		capacity := n.Node.Capacity
		if n.Node.Devices > 0 {
			capacity[s.Snapshot.GPU] = Whole * int64(n.Node.Devices)
		}
		for r, v := range capacity {
			if v > 0 {
				out[i][r] = 1 / float64(v)
			}
		}
	}
	return out
}

// preference is what soft terms and taints make of a node, up to 100.
func preference(c *Class, n *NodeInfo) float64 {
	have, all := 0, 0
	for i := range c.Spec.Affinity {
		if a := &c.Spec.Affinity[i]; a.Weight > 0 {
			all += a.Weight
			if a.Holds(n.Node.Labels) {
				have += a.Weight
			}
		}
	}
	x := 0.0
	if all > 0 {
		x = 100 * float64(have) / float64(all)
	}
	for _, t := range n.Node.Taints {
		if t.Soft && !c.Spec.Stands(t) {
			x -= 100
		}
	}
	return x
}

// binpack prefers nodes that are full already, so that others stay empty for what is large: by each resource's weight,
// and of GPUs those of which a part is taken.
type binpack struct {
	weight, device float64
	resources      map[string]float64
}

func newBinpack(a Args) Plugin {
	return binpack{a.Number("weight", 1), a.Number("device", 1), a.Numbers("resources")}
}

func (p binpack) Open(s *Session) {
	var weights [MaxResources]float64
	for r, name := range s.Snapshot.Resources {
		weights[r] = 1
		if w, ok := p.resources[name]; ok {
			weights[r] = w
		}
	}
	inverse := inverses(s)
	s.OrderNodes(func(c *Class, n *NodeInfo) float64 {
		inv := &inverse[n.Index]
		sum, count := 0.0, 0.0
		for r, need := range c.request {
			if need > 0 {
				sum += weights[r] * (1 - float64(n.Idle[r]-need)*inv[r])
				count += weights[r]
			}
		}
		if count == 0 {
			return 0
		}
		x := sum / count
		if c.devices == 1 && c.share < Whole && p.device != 0 {
			x += p.device * (1 - float64(n.tightest(c.share)-c.share)/Whole)
		}
		if c.devices == 0 && len(n.devices) > 0 {
			x -= p.device // its cores and memory are for those that use its GPUs
		}
		return 100 * p.weight * x
	})
}

// tightest is the least that is left of a device with room for a share, in thousandths.
func (n *NodeInfo) tightest(share int32) int32 {
	least := int32(Whole)
	for i := range n.devices {
		if free := min(n.devices[i].idle, n.devices[i].future); free >= share {
			least = min(least, free)
		}
	}
	return least
}

package scheduler

// predicates keeps tasks off nodes with unsuitable labels, taints or tasks. Resources are checked even without this
// plugin.
type predicates struct{}

func (predicates) Open(s *Session) {
	s.Require(suits, func(c *Class, n *NodeInfo, later bool) string {
		if n.labels != nil && !n.labelsAllow(c.Spec, later) {
			return "the near or apart rules of this task or of the tasks on it are not met"
		}
		return ""
	})
}

// suits returns why a task of the class may never run on the node, whatever else runs there; empty if it may.
func suits(c *Class, n *NodeInfo) string {
	for k, v := range c.Spec.Selector {
		if n.Node.Labels[k] != v {
			return "its label " + k + " is not " + quote(v)
		}
	}
	for i := range c.Spec.Affinity {
		if a := &c.Spec.Affinity[i]; a.Weight == 0 && !a.Holds(n.Node.Labels) {
			return "its label " + a.Key + " does not match the task's affinity"
		}
	}
	for _, t := range n.Node.Taints {
		if !t.Soft && !c.Spec.ToleratesTaint(t) {
			return "its taint " + t.Key + " is not tolerated"
		}
	}
	return ""
}

// nodeOrder prefers nodes that tasks ask for, and spreads load.
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

// inverses returns 1/capacity of each node, so that scores need no division.
func inverses(s *Session) [][maxResources]float64 {
	out := make([][maxResources]float64, len(s.Nodes))
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

// preference scores a node from 0 to 100 by soft terms and taints.
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
		if t.Soft && !c.Spec.ToleratesTaint(t) {
			x -= 100
		}
	}
	return x
}

// binpack prefers nodes that are already full, so that others stay free for large tasks. It weights resources, and
// among GPUs it prefers those that are already shared.
type binpack struct {
	weight, device float64
	resources      map[string]float64
}

func newBinpack(a Args) Plugin {
	return binpack{a.Number("weight", 1), a.Number("device", 1), a.Numbers("resources")}
}

func (p binpack) Open(s *Session) {
	var weights [maxResources]float64
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
			x -= p.device // keep its cores and memory for tasks that use its GPUs
		}
		return 100 * p.weight * x
	})
}

// tightest returns the smallest free share of any device that has room for share, in thousandths.
func (n *NodeInfo) tightest(share int32) int32 {
	least := int32(Whole)
	for i := range n.devices {
		if free := min(n.devices[i].idle, n.devices[i].future); free >= share {
			least = min(least, free)
		}
	}
	return least
}

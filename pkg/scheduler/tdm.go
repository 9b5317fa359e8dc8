package scheduler

// tdm is time-division multiplexing: nodes with a time window accept evictable tasks during the window and evict them
// at its end.
type tdm struct{ windows map[string]Window }

func newTDM(a Args) Plugin { return tdm{a.Windows("windows")} }

func (p tdm) open(s *Session, n *NodeInfo) bool {
	w, ok := p.windows[n.Node.Window]
	if !ok {
		return false
	}
	_, open := w.Open(s.Now)
	return open
}

func (p tdm) Open(s *Session) {
	s.Require(func(c *Class, n *NodeInfo) string {
		if n.Node.Window == "" {
			return ""
		}
		switch {
		case !p.open(s, n):
			return "its time window " + n.Node.Window + " is not open"
		case !c.Evictable:
			return "tasks are evicted at the end of its time window, and this task must not be evicted"
		}
		return ""
	}, nil)
	s.Prefer(func(c *Class, n *NodeInfo) float64 {
		if n.Node.Window != "" {
			return 100 // keep other nodes for tasks that can not run here
		}
		return 0
	})
	s.Evict(func() (out []Victim) {
		for _, n := range s.Nodes {
			if n.Node.Window == "" {
				continue
			}
			if p.open(s, n) {
				continue
			}
			for _, t := range n.running {
				if t.evictable() && t.Class.Evictable {
					out = append(out, Victim{t, "the time window " + n.Node.Window + " of its node has ended"})
				}
			}
		}
		return out
	})
}

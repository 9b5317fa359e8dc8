package scheduler

// tdm divides nodes by time: those with a window take, in its hours, tasks that may be evicted, and lose them at its
// end.
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
			return "at the end of its time window tasks are evicted, and this one must not be"
		}
		return ""
	}, nil)
	s.Prefer(func(c *Class, n *NodeInfo) float64 {
		if n.Node.Window != "" {
			return 100 // others are for those that can not be here
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
				if t.canGo() && t.Class.Evictable {
					out = append(out, Victim{t, "the time window " + n.Node.Window + " of its node has ended"})
				}
			}
		}
		return out
	})
}

package scheduler

import "time"

// Window is a part of each day in which nodes are to be had.
type Window struct {
	From, To time.Duration // since midnight; from 22h to 6h goes over it
	Zone     *time.Location
}

// Open says whether a time is in the window, and until when it is.
func (w Window) Open(now time.Time) (until time.Time, open bool) {
	local := now.In(w.Zone)
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, w.Zone)
	clock := func(day int, d time.Duration) time.Time {
		return time.Date(midnight.Year(), midnight.Month(), midnight.Day()+day, 0, 0, int(d/time.Second), 0, w.Zone)
	}
	for day := -1; day <= 0; day++ {
		from, to := clock(day, w.From), clock(day, w.To)
		if w.To <= w.From {
			to = clock(day+1, w.To)
		}
		if !local.Before(from) && local.Before(to) {
			return to, true
		}
	}
	return time.Time{}, false
}

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

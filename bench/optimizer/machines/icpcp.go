package machines

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// ICPCP returns a plan by IC-PCP (Abrishami, Naghibzadeh, Epema, Future Generation Computer Systems 29, 2013), or nil
// if it finds none or there is no deadline. It assigns one partial critical path after another: as a whole, to the
// core of an instance on which it costs least, or to a new instance of the cheapest type on which every task ends in
// time. A task runs on one core, as the workflows' tasks hold one vCPU and 2 GiB.
func ICPCP(m *shared.Model, types []int) *shared.Plan {
	if m.DeadlineHours == nil || len(types) == 0 {
		return nil
	}
	s := newICPCP(m, types)
	for _, t := range slices.Backward(s.g.order) {
		if len(s.g.children[t]) == 0 && !s.assignParents(t, true) {
			return nil
		}
	}
	return s.plan()
}

// core is one core of an instance with its tasks by start.
type core struct {
	instance int
	tasks    []int
}

type icpcp struct {
	m           *shared.Model
	g           *graph
	types       []int
	fastest     float64
	boot        float64 // the shortest
	kinds       []int   // of instances
	cores       []core
	on          []int // core of each task, or -1
	start, end  []float64
	early, late []float64 // the earliest start and the latest end
}

func newICPCP(m *shared.Model, types []int) *icpcp {
	n := len(m.Tasks)
	s := &icpcp{
		m: m, g: newGraph(m), types: types, boot: math.Inf(1), on: make([]int, n),
		start: make([]float64, n), end: make([]float64, n), early: make([]float64, n), late: make([]float64, n),
	}
	for _, k := range types {
		s.fastest = max(s.fastest, m.Machines[k].Speed)
		s.boot = min(s.boot, m.Machines[k].BootHours)
	}
	for t := range s.on {
		s.on[t] = -1
	}
	s.update()
	return s
}

func (s *icpcp) hours(t, kind int) float64 { return s.m.Tasks[t].Hours / s.m.Machines[kind].Speed }

// move is the time for an edge of some GiB if its ends are on different instances of the first type's place.
func (s *icpcp) move(gib float64) float64 {
	place := s.m.Machines[s.types[0]].Place
	return gib * s.m.HoursPerGiB[place][place]
}

// update computes the earliest starts and the latest ends of the tasks without a core.
func (s *icpcp) update() {
	for _, t := range s.g.order {
		if s.on[t] >= 0 {
			s.early[t] = s.start[t]
			continue
		}
		s.early[t] = s.boot
		for _, p := range s.g.parents[t] {
			end := s.early[p.task] + s.m.Tasks[p.task].Hours/s.fastest
			if s.on[p.task] >= 0 {
				end = s.end[p.task]
			}
			s.early[t] = max(s.early[t], end+s.move(p.gib))
		}
	}
	for _, t := range slices.Backward(s.g.order) {
		s.late[t] = *s.m.DeadlineHours
		for _, c := range s.g.children[t] {
			at := s.late[c.task] - s.m.Tasks[c.task].Hours/s.fastest
			if s.on[c.task] >= 0 {
				at = s.start[c.task]
			}
			s.late[t] = min(s.late[t], at-s.move(c.gib))
		}
	}
}

// assignParents assigns the partial critical paths that end at a task, or with it.
func (s *icpcp) assignParents(t int, self bool) bool {
	for {
		var path []int
		if self && s.on[t] < 0 {
			path = append(path, t)
		}
		for at := t; ; {
			if at = s.criticalParent(at); at < 0 {
				break
			}
			path = append(path, at)
		}
		if len(path) == 0 {
			return true
		}
		slices.Reverse(path)
		if !s.assign(path) {
			return false
		}
		s.update()
		for _, p := range path {
			if !s.assignParents(p, false) {
				return false
			}
		}
	}
}

// criticalParent is the parent without a core whose output arrives last, or -1.
func (s *icpcp) criticalParent(t int) int {
	best, last := -1, math.Inf(-1)
	for _, p := range s.g.parents[t] {
		at := s.early[p.task] + s.m.Tasks[p.task].Hours/s.fastest + s.move(p.gib)
		if s.on[p.task] < 0 && at > last {
			best, last = p.task, at
		}
	}
	return best
}

// assign puts a path on the cheapest core, or on a new instance; if a longer path has no place, it splits.
func (s *icpcp) assign(path []int) bool {
	best, least := -1, math.Inf(1)
	for c := range s.cores {
		if starts := s.fit(path, s.kinds[s.cores[c].instance], c); starts != nil {
			if usd := s.extension(path, starts, c); usd < least {
				best, least = c, usd
			}
		}
	}
	kind := -1
	for _, k := range s.types {
		if starts := s.fit(path, k, -1); starts != nil {
			last := path[len(path)-1]
			span := starts[len(path)-1] + s.hours(last, k) - starts[0] + s.m.Machines[k].BootHours
			if usd := s.rent(k, span); usd < least && s.count(k) < s.m.Machines[k].Most {
				least, kind = usd, k
			}
		}
	}
	switch {
	case kind >= 0:
		best = len(s.cores)
		s.kinds = append(s.kinds, kind)
		for range int(min(s.m.Machines[kind].CPUs, s.m.Machines[kind].MemoryGiB/2)) {
			s.cores = append(s.cores, core{instance: len(s.kinds) - 1})
		}
	case best < 0:
		return false
	}
	k := s.kinds[s.cores[best].instance]
	for i, at := range s.fit(path, k, best) {
		t := path[i]
		s.on[t], s.start[t], s.end[t] = best, at, at+s.hours(t, k)
		s.cores[best].tasks = append(s.cores[best].tasks, t)
	}
	slices.SortFunc(s.cores[best].tasks, func(a, b int) int {
		if s.start[a] < s.start[b] {
			return -1
		}
		return 1
	})
	return true
}

func (s *icpcp) count(kind int) int {
	n := 0
	for _, k := range s.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// fit returns the starts of the tasks of a path on a core (-1: a new one), or nil if one of them would end too late.
func (s *icpcp) fit(path []int, kind, c int) []float64 {
	starts := make([]float64, len(path))
	free := s.m.Machines[kind].BootHours
	for i, t := range path {
		at := free
		for _, p := range s.g.parents[t] {
			if s.on[p.task] >= 0 {
				move := s.move(p.gib)
				if c >= 0 && s.cores[s.on[p.task]].instance == s.cores[c].instance {
					move = 0
				}
				at = max(at, s.end[p.task]+move)
			} else if !slices.Contains(path[:i], p.task) {
				at = max(at, s.early[p.task]+s.m.Tasks[p.task].Hours/s.fastest+s.move(p.gib))
			}
		}
		hours := s.hours(t, kind)
		if c >= 0 {
			for _, o := range s.cores[c].tasks {
				if s.start[o] < at+hours && s.end[o] > at {
					at = s.end[o]
				}
			}
		}
		if at+hours > s.late[t] {
			return nil
		}
		starts[i], free = at, at+hours
	}
	return starts
}

func (s *icpcp) rent(kind int, span float64) float64 {
	k := &s.m.Machines[kind]
	billed := max(k.MinimumHours, span)
	if k.IncrementHours > 0 {
		billed = math.Ceil(billed/k.IncrementHours-1e-9) * k.IncrementHours
	}
	return k.USDPerHour * billed
}

// extension is what a path adds to the rent of the instance of a core.
func (s *icpcp) extension(path []int, starts []float64, c int) float64 {
	i := s.cores[c].instance
	k := s.kinds[i]
	first, last := math.Inf(1), math.Inf(-1)
	for _, o := range s.cores {
		if o.instance == i {
			for _, t := range o.tasks {
				first, last = min(first, s.start[t]), max(last, s.end[t])
			}
		}
	}
	boot := s.m.Machines[k].BootHours
	before := s.rent(k, last-first+boot)
	end := starts[len(starts)-1] + s.hours(path[len(path)-1], k)
	return s.rent(k, max(last, end)-min(first, starts[0])+boot) - before
}

// plan adds the rentals.
func (s *icpcp) plan() *shared.Plan {
	p := &shared.Plan{Tasks: make([]shared.Run, len(s.on))}
	for i, k := range s.kinds {
		first, last := math.Inf(1), math.Inf(-1)
		for t, c := range s.on {
			if s.cores[c].instance == i {
				first, last = min(first, s.start[t]), max(last, s.end[t])
				p.Tasks[t] = shared.Run{On: i, From: s.start[t], To: s.end[t]}
			}
		}
		from := first - s.m.Machines[k].BootHours
		p.Instances = append(p.Instances, shared.Instance{Machine: k, From: from, To: last})
		p.USD += s.rent(k, last-from)
		p.Hours = max(p.Hours, last)
	}
	return p
}

package optimizer

import "slices"

// windows bounds from below, for every task and place, when the task can start
// there and how long it takes from its finish there to the end of the plan.
// Each task upstream and downstream counts at whatever place suits that path
// best, so the bounds hold for every plan; they are exact where no two paths
// that part meet again. Slices are indexed task × nPlace + place.
type windows struct {
	inst *instance
	// quick is the least time of the task's options left at the place, +Inf
	// where none is left.
	quick []float64
	// start is the earliest start; after the least time from finish to end.
	start, after []float64
	// lateStart and lateAfter mark the tasks whose bounds must be computed
	// again since those of a neighbour changed.
	lateStart, lateAfter []bool
	pending              bool
	// moved marks the tasks any of whose bounds changed since the last check
	// against the cut.
	moved []bool
}

func newWindows(inst *instance) *windows {
	n := inst.nTask()
	w := &windows{
		inst:  inst,
		quick: make([]float64, n*inst.nPlace), start: make([]float64, n*inst.nPlace), after: make([]float64, n*inst.nPlace),
		lateStart: make([]bool, n), lateAfter: make([]bool, n), moved: make([]bool, n), pending: true,
	}
	for i := range w.quick {
		w.quick[i] = inf
	}
	for t := range int32(n) { // #nosec G115 -- at most MaxTasks
		quick := w.at(w.quick, t)
		for _, o := range inst.options(t) {
			quick[o.place] = min(quick[o.place], o.hours)
		}
		w.lateStart[t], w.lateAfter[t], w.moved[t] = true, true, true
	}
	return w
}

func (w *windows) clone() *windows {
	c := *w
	c.quick, c.start, c.after = slices.Clone(w.quick), slices.Clone(w.start), slices.Clone(w.after)
	c.lateStart, c.lateAfter, c.moved = slices.Clone(w.lateStart), slices.Clone(w.lateAfter), slices.Clone(w.moved)
	return &c
}

// at is the row of task t in one of the slices by task and place.
func (w *windows) at(of []float64, t int32) []float64 {
	return of[int(t)*w.inst.nPlace:][:w.inst.nPlace]
}

// through is the least makespan of a plan with task t at place p, as far as the
// windows tell.
func (w *windows) through(t int32, p int) float64 {
	i := int(t)*w.inst.nPlace + p
	return w.start[i] + w.quick[i] + w.after[i]
}

// changed tells the windows that the options left to t have changed.
func (w *windows) changed(t int32) {
	for _, e := range w.inst.out.of(t) {
		w.lateStart[w.inst.edges[e].to] = true
	}
	for _, e := range w.inst.in.of(t) {
		w.lateAfter[w.inst.edges[e].from] = true
	}
	w.moved[t], w.pending = true, true
}

// recheck has every task checked against the cut again, when that has changed.
func (w *windows) recheck() {
	for t := range w.moved {
		w.moved[t] = true
	}
	w.pending = true
}

// propagate brings all bounds up to date and rules out the places where a task
// cannot be in a plan with a makespan below cut, until nothing changes any
// more. It reports false when a task has no place left.
func (w *windows) propagate(cut float64, s *scratch, m *meter) bool {
	for w.pending && !m.stopped {
		w.pending = false
		for _, t := range w.inst.topo {
			if w.lateStart[t] {
				w.lateStart[t] = false
				w.updateStart(t, s, m)
			}
		}
		for _, t := range slices.Backward(w.inst.topo) {
			if w.lateAfter[t] {
				w.lateAfter[t] = false
				w.updateAfter(t, s, m)
			}
		}
		for t := range w.moved {
			if w.moved[t] && !w.prune(int32(t), cut) { // #nosec G115 -- at most MaxTasks
				return false
			}
		}
	}
	return true
}

func (w *windows) updateStart(t int32, s *scratch, m *meter) {
	n := w.inst.nPlace
	s.bound = grow(s.bound, n)
	clear(s.bound)
	for _, i := range w.inst.in.of(t) {
		e := &w.inst.edges[i]
		s.h = sum(s.h, w.at(w.start, e.from), w.at(w.quick, e.from))
		sd := side{matrices: matrices{table: w.inst.hrs, scale: e.maxGiB}}
		s.offer = grow(s.offer, n)
		m.spend(sd.push(s.offer, s.h))
		maxInto(s.bound, s.offer)
	}
	if !replace(w.at(w.start, t), s.bound) {
		return
	}
	w.moved[t] = true
	for _, i := range w.inst.out.of(t) {
		w.lateStart[w.inst.edges[i].to] = true
	}
}

func (w *windows) updateAfter(t int32, s *scratch, m *meter) {
	n := w.inst.nPlace
	s.bound = grow(s.bound, n)
	clear(s.bound)
	for _, i := range w.inst.out.of(t) {
		e := &w.inst.edges[i]
		s.h = sum(s.h, w.at(w.after, e.to), w.at(w.quick, e.to))
		sd := side{matrices: matrices{table: w.inst.hrsT, scale: e.maxGiB}}
		s.offer = grow(s.offer, n)
		m.spend(sd.push(s.offer, s.h))
		maxInto(s.bound, s.offer)
	}
	if !replace(w.at(w.after, t), s.bound) {
		return
	}
	w.moved[t] = true
	for _, i := range w.inst.in.of(t) {
		w.lateAfter[w.inst.edges[i].from] = true
	}
}

// prune rules out the places of t that are too slow.
func (w *windows) prune(t int32, cut float64) bool {
	w.moved[t] = false
	quick := w.at(w.quick, t)
	pruned, left := false, false
	for p := range quick {
		if quick[p] == inf {
			continue
		}
		if w.through(t, p) >= cut {
			quick[p] = inf
			pruned = true
			continue
		}
		left = true
	}
	if pruned {
		w.changed(t)
		w.moved[t] = false
	}
	return left
}

// lower is the proven bound: every task is somewhere.
func (w *windows) lower() float64 {
	bound := 0.0
	for t := range int32(w.inst.nTask()) { // #nosec G115 -- at most MaxTasks
		bound = max(bound, w.lowerOf(t))
	}
	return bound
}

func (w *windows) lowerOf(t int32) float64 {
	least := inf
	for p := range w.inst.nPlace {
		least = min(least, w.through(t, p))
	}
	return least
}

func sum(dst, a, b []float64) []float64 {
	dst = grow(dst, len(a))
	for i := range a {
		dst[i] = a[i] + b[i]
	}
	return dst
}

func maxInto(dst, src []float64) {
	for i, x := range src {
		if x > dst[i] {
			dst[i] = x
		}
	}
}

// replace copies src to dst and reports whether that changed anything.
func replace(dst, src []float64) bool {
	if slices.Equal(dst, src) {
		return false
	}
	copy(dst, src)
	return true
}

// take leaves task t only place p.
func (w *windows) take(t int32, p int) {
	quick := w.at(w.quick, t)
	for q := range quick {
		if q != p {
			quick[q] = inf
		}
	}
	w.changed(t)
}

// twoFastest returns the place of t with the least bound and the bound of the
// second.
func (w *windows) twoFastest(t int32) (p int, second float64) {
	p, second = 0, inf
	for q := 1; q < w.inst.nPlace; q++ {
		switch x := w.through(t, q); {
		case x < w.through(t, p):
			p, second = q, w.through(t, p)
		case x < second:
			second = x
		}
	}
	return p, second
}

// Package windows bounds when each task can start at each place and how long the rest of the plan takes. It also
// stores the remaining options of the tasks in a part of a search.
package windows

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Windows holds, for every task and place, lower bounds of the task's start there and of the time from its finish
// there to the end of the plan. Each task upstream and downstream is assumed at the best place for the path, so the
// bounds hold for every plan. They are exact if no two paths fork and join again. Slices are indexed task × NPlace +
// place.
type Windows struct {
	inst *problem.Instance
	// Quick is the minimum time of the task's remaining options at the place, +Inf if there are none.
	Quick []float64
	// Start is the earliest start, After the minimum time from finish to end.
	Start, After []float64
	// lateStart and lateAfter mark the tasks whose bounds must be computed again because those of a neighbour
	// changed.
	lateStart, lateAfter []bool
	pending              bool
	// moved marks the tasks with a bound that changed since the last check against the cut.
	moved []bool
}

// New returns windows whose bounds Propagate must still compute.
func New(inst *problem.Instance) *Windows {
	n := inst.NTask()
	w := &Windows{
		inst:  inst,
		Quick: make([]float64, n*inst.NPlace), Start: make([]float64, n*inst.NPlace),
		After:     make([]float64, n*inst.NPlace),
		lateStart: make([]bool, n), lateAfter: make([]bool, n), moved: make([]bool, n), pending: true,
	}
	for i := range w.Quick {
		w.Quick[i] = search.Inf
	}
	for t := range int32(n) { // #nosec G115 -- at most MaxTasks
		quick := w.At(w.Quick, t)
		for _, o := range inst.Options(t) {
			quick[o.Place] = min(quick[o.Place], o.Hours)
		}
		w.lateStart[t], w.lateAfter[t], w.moved[t] = true, true, true
	}
	return w
}

// Clone copies everything except the instance.
func (w *Windows) Clone() *Windows {
	c := *w
	c.Quick, c.Start, c.After = slices.Clone(w.Quick), slices.Clone(w.Start), slices.Clone(w.After)
	c.lateStart, c.lateAfter, c.moved = slices.Clone(w.lateStart), slices.Clone(w.lateAfter), slices.Clone(w.moved)
	return &c
}

// At returns the row of task t in one of the slices by task and place.
func (w *Windows) At(of []float64, t int32) []float64 {
	return of[int(t)*w.inst.NPlace:][:w.inst.NPlace]
}

// through returns a lower bound of the makespan of plans with task t at place p.
func (w *Windows) through(t int32, p int) float64 {
	i := int(t)*w.inst.NPlace + p
	return w.Start[i] + w.Quick[i] + w.After[i]
}

// Changed marks that the remaining options of t have changed.
func (w *Windows) Changed(t int32) {
	for _, e := range w.inst.Out.Of(t) {
		w.lateStart[w.inst.Edges[e].To] = true
	}
	for _, e := range w.inst.In.Of(t) {
		w.lateAfter[w.inst.Edges[e].From] = true
	}
	w.moved[t], w.pending = true, true
}

// Recheck marks every task for a check against the cut, after the cut has changed.
func (w *Windows) Recheck() {
	for t := range w.moved {
		w.moved[t] = true
	}
	w.pending = true
}

// Propagate updates all bounds and excludes places where a task cannot be in a plan with a makespan below cut, until
// nothing changes. It returns false if a task has no place left.
func (w *Windows) Propagate(cut float64, s *network.Scratch, m *search.Meter) bool {
	for w.pending && !m.Stopped {
		w.pending = false
		for _, t := range w.inst.Topo {
			if w.lateStart[t] {
				w.lateStart[t] = false
				w.updateStart(t, s, m)
			}
		}
		for _, t := range slices.Backward(w.inst.Topo) {
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

func (w *Windows) updateStart(t int32, s *network.Scratch, m *search.Meter) {
	if !w.update(w.Start, t, w.inst.In.Of(t), w.inst.Hrs, func(e int32) int32 { return w.inst.Edges[e].From }, s, m) {
		return
	}
	for _, i := range w.inst.Out.Of(t) {
		w.lateStart[w.inst.Edges[i].To] = true
	}
}

func (w *Windows) updateAfter(t int32, s *network.Scratch, m *search.Meter) {
	if !w.update(w.After, t, w.inst.Out.Of(t), w.inst.HrsT, func(e int32) int32 { return w.inst.Edges[e].To }, s, m) {
		return
	}
	for _, i := range w.inst.In.Of(t) {
		w.lateAfter[w.inst.Edges[i].From] = true
	}
}

// update computes a bound of t from those of the tasks at the other ends of some edges, and reports whether it
// changed.
func (w *Windows) update(of []float64, t int32, edges []int32, hours []float64, end func(edge int32) int32,
	s *network.Scratch, m *search.Meter) bool {
	n := w.inst.NPlace
	s.Bound = search.Grow(s.Bound, n)
	clear(s.Bound)
	for _, i := range edges {
		s.H = sum(s.H, w.At(of, end(i)), w.At(w.Quick, end(i)))
		sd := network.Side{Matrices: network.Matrices{Table: hours, Scale: w.inst.Edges[i].MaxGiB}}
		s.Offer = search.Grow(s.Offer, n)
		m.Spend(sd.Push(s.Offer, s.H))
		maxInto(s.Bound, s.Offer)
	}
	moved := replace(w.At(of, t), s.Bound)
	w.moved[t] = w.moved[t] || moved
	return moved
}

// prune excludes the places of t that are too slow.
func (w *Windows) prune(t int32, cut float64) bool {
	w.moved[t] = false
	quick := w.At(w.Quick, t)
	pruned, left := false, false
	for p := range quick {
		if quick[p] == search.Inf {
			continue
		}
		if w.through(t, p) >= cut {
			quick[p] = search.Inf
			pruned = true
			continue
		}
		left = true
	}
	if pruned {
		w.Changed(t)
		w.moved[t] = false
	}
	return left
}

// Lower returns the proven lower bound of the makespan: each task must be somewhere.
func (w *Windows) Lower() float64 {
	bound := 0.0
	for t := range int32(w.inst.NTask()) { // #nosec G115 -- at most MaxTasks
		bound = max(bound, w.lowerOf(t))
	}
	return bound
}

func (w *Windows) lowerOf(t int32) float64 {
	least := search.Inf
	for p := range w.inst.NPlace {
		least = min(least, w.through(t, p))
	}
	return least
}

func sum(dst, a, b []float64) []float64 {
	dst = search.Grow(dst, len(a))
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

// Take excludes all places of task t except p.
func (w *Windows) Take(t int32, p int) {
	quick := w.At(w.Quick, t)
	for q := range quick {
		if q != p {
			quick[q] = search.Inf
		}
	}
	w.Changed(t)
}

// TwoFastest returns the place of t with the lowest bound, and the second lowest bound.
func (w *Windows) TwoFastest(t int32) (p int, second float64) {
	p, second = 0, search.Inf
	for q := 1; q < w.inst.NPlace; q++ {
		switch x := w.through(t, q); {
		case x < w.through(t, p):
			p, second = q, w.through(t, p)
		case x < second:
			second = x
		}
	}
	return p, second
}

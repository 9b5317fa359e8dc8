package optimizer

import (
	"math"
	"slices"
)

// box is a part of the search space of a bounded problem: the options left to
// every task, with the windows that follow from them.
type box struct {
	inst    *instance
	windows *windows
	alive   []bool  // by option
	left    []int32 // by task
}

func newBox(inst *instance) *box {
	b := &box{inst: inst, windows: newWindows(inst), alive: make([]bool, len(inst.opts)), left: make([]int32, inst.nTask())}
	for o := range b.alive {
		b.alive[o] = true
	}
	for t := range b.left {
		b.left[t] = inst.first[t+1] - inst.first[t]
	}
	return b
}

func (b *box) clone() *box {
	return &box{inst: b.inst, windows: b.windows.clone(), alive: slices.Clone(b.alive), left: slices.Clone(b.left)}
}

// keep rules out the options of task t that pred refuses and reports whether
// any is left.
func (b *box) keep(t int32, pred func(o int32) bool) bool {
	changed := false
	for _, sp := range b.inst.spansOf(t) {
		quick := inf
		for o := sp.lo; o < sp.hi; o++ {
			if b.alive[o] && !pred(o) {
				b.alive[o] = false
				b.left[t]--
			}
			if b.alive[o] {
				quick = min(quick, b.inst.opts[o].hours)
			}
		}
		if w := b.windows.at(b.windows.quick, t); quick > w[sp.place] {
			w[sp.place] = quick
			changed = true
		}
	}
	if changed {
		b.windows.changed(t)
	}
	return b.left[t] > 0
}

// narrow rules out the options that cannot be in a plan with a makespan below
// cut, and reports whether every task has one left.
func (b *box) narrow(cut float64, s *scratch, m *meter) bool {
	w := b.windows
	if !w.propagate(cut, s, m) {
		return false
	}
	for t := range int32(len(b.left)) { // #nosec G115 -- at most MaxTasks
		start, after := w.at(w.start, t), w.at(w.after, t)
		for _, sp := range b.inst.spansOf(t) {
			gone := w.at(w.quick, t)[sp.place] == inf
			limit := cut - start[sp.place] - after[sp.place]
			for o := sp.lo; o < sp.hi && (gone || b.inst.opts[o].hours >= limit); o++ {
				if b.alive[o] {
					b.alive[o] = false
					b.left[t]--
				}
			}
		}
		if b.left[t] == 0 {
			return false
		}
	}
	return true
}

// single tells whether every task has one option left.
func (b *box) single() bool {
	for _, k := range b.left {
		if k != 1 {
			return false
		}
	}
	return true
}

// plan returns the plan of the first option left to each task.
func (b *box) plan() plan {
	p := make(plan, len(b.left))
	for t := range p {
		alive := b.alive[b.inst.first[t]:b.inst.first[t+1]]
		p[t] = int32(slices.Index(alive, true)) // #nosec G115 -- at most MaxCandidates
	}
	return p
}

// apply restricts one task and reports whether it has an option left.
func (b *box) apply(d *decision) bool {
	value := &b.inst.opts[d.value]
	return b.keep(d.task, func(o int32) bool {
		opt := &b.inst.opts[o]
		switch d.kind {
		case leaveOut:
			return o != d.value
		case take:
			return o == d.value
		case atMost:
			return opt.hours <= value.hours
		default:
			return opt.hours > value.hours
		}
	})
}

// splitAt finds the slowest option left to t of at most the given hours, and
// how far the hours are from that and from the next slower one, whichever is
// nearer. The gap is zero when all options are on one side.
func (b *box) splitAt(t int32, hours float64) (o int32, gap float64) {
	below, above := math.Inf(-1), inf
	o = -1
	for k := b.inst.first[t]; k < b.inst.first[t+1]; k++ {
		if !b.alive[k] {
			continue
		}
		switch h := b.inst.opts[k].hours; {
		case h <= hours && h > below:
			below, o = h, k
		case h > hours:
			above = min(above, h)
		}
	}
	if o < 0 || above == inf {
		return -1, 0
	}
	return o, min(hours-below, above-hours)
}

// holds tells whether all of p's options are left in b.
func (b *box) holds(p plan) bool {
	for t, k := range p {
		if !b.alive[b.inst.first[t]+k] {
			return false
		}
	}
	return true
}

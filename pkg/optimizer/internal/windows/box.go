package windows

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Box is a part of the search space of a bounded problem: the remaining options of every task, and the windows that
// follow from them.
type Box struct {
	Inst    *problem.Instance
	Windows *Windows
	Alive   []bool  // by option
	Left    []int32 // by task
}

// NewBox returns a box with all options of every task.
func NewBox(inst *problem.Instance) *Box {
	b := &Box{Inst: inst, Windows: New(inst), Alive: make([]bool, len(inst.Opts)), Left: make([]int32, inst.NTask())}
	for o := range b.Alive {
		b.Alive[o] = true
	}
	for t := range b.Left {
		b.Left[t] = inst.First[t+1] - inst.First[t]
	}
	return b
}

// Clone copies the parts that may change, and shares the others.
func (b *Box) Clone() *Box {
	return &Box{Inst: b.Inst, Windows: b.Windows.Clone(), Alive: slices.Clone(b.Alive), Left: slices.Clone(b.Left)}
}

// Keep excludes the options of task t for which pred is false, and reports whether any is left.
func (b *Box) Keep(t int32, pred func(o int32) bool) bool {
	changed := false
	for _, sp := range b.Inst.SpansOf(t) {
		quick := search.Inf
		for o := sp.Lo; o < sp.Hi; o++ {
			if b.Alive[o] && !pred(o) {
				b.Alive[o] = false
				b.Left[t]--
			}
			if b.Alive[o] {
				quick = min(quick, b.Inst.Opts[o].Hours)
			}
		}
		if w := b.Windows.At(b.Windows.Quick, t); quick > w[sp.Place] {
			w[sp.Place] = quick
			changed = true
		}
	}
	if changed {
		b.Windows.Changed(t)
	}
	return b.Left[t] > 0
}

// Narrow excludes the options that cannot be in a plan with a makespan below cut, and reports whether every task has
// an option left.
func (b *Box) Narrow(cut float64, s *network.Scratch, m *search.Meter) bool {
	w := b.Windows
	if !w.Propagate(cut, s, m) {
		return false
	}
	for t := range int32(len(b.Left)) { // #nosec G115 -- at most MaxTasks
		start, after := w.At(w.Start, t), w.At(w.After, t)
		for _, sp := range b.Inst.SpansOf(t) {
			gone := w.At(w.Quick, t)[sp.Place] == search.Inf
			limit := cut - start[sp.Place] - after[sp.Place]
			for o := sp.Lo; o < sp.Hi && (gone || b.Inst.Opts[o].Hours >= limit); o++ {
				if b.Alive[o] {
					b.Alive[o] = false
					b.Left[t]--
				}
			}
		}
		if b.Left[t] == 0 {
			return false
		}
	}
	return true
}

// Single reports whether every task has exactly one option left.
func (b *Box) Single() bool {
	for _, k := range b.Left {
		if k != 1 {
			return false
		}
	}
	return true
}

// Plan returns the plan with the first remaining option of each task.
func (b *Box) Plan() problem.Plan {
	p := make(problem.Plan, len(b.Left))
	for t := range p {
		alive := b.Alive[b.Inst.First[t]:b.Inst.First[t+1]]
		p[t] = int32(slices.Index(alive, true)) // #nosec G115 -- at most MaxCandidates
	}
	return p
}

// Apply applies a decision to its task and reports whether the task has an option left.
func (b *Box) Apply(d *search.Decision) bool {
	value := &b.Inst.Opts[d.Value]
	return b.Keep(d.Task, func(o int32) bool {
		opt := &b.Inst.Opts[o]
		switch d.Kind {
		case search.LeaveOut:
			return o != d.Value
		case search.Take:
			return o == d.Value
		case search.AtMost:
			return opt.Hours <= value.Hours
		default:
			return opt.Hours > value.Hours
		}
	})
}

// SplitAt returns the slowest remaining option of t that takes at most the given hours, and the distance of the hours
// to it or to the next slower option, whichever is nearer. The gap is zero if all options are on one side.
func (b *Box) SplitAt(t int32, hours float64) (o int32, gap float64) {
	below, above := math.Inf(-1), search.Inf
	o = -1
	for k := b.Inst.First[t]; k < b.Inst.First[t+1]; k++ {
		if !b.Alive[k] {
			continue
		}
		switch h := b.Inst.Opts[k].Hours; {
		case h <= hours && h > below:
			below, o = h, k
		case h > hours:
			above = min(above, h)
		}
	}
	if o < 0 || above == search.Inf {
		return -1, 0
	}
	return o, min(hours-below, above-hours)
}

// Holds reports whether all of p's options remain in b.
func (b *Box) Holds(p problem.Plan) bool {
	for t, k := range p {
		if !b.Alive[b.Inst.First[t]+k] {
			return false
		}
	}
	return true
}

package search

import "container/heap"

// OpenList is the part of a search tree that is still to be explored.
type OpenList struct {
	Open openHeap
	seq  int
}

// Push leaves a branch open, with its bound and the last of its decisions.
func (l *OpenList) Push(bound float64, d *Decision) {
	l.seq++
	heap.Push(&l.Open, Branch{Bound: bound, seq: l.seq, Decision: d})
}

// Pop returns the branch with the least bound, if that is below cut. Otherwise
// no open branch is worth exploring, and the list is cleared.
func (l *OpenList) Pop(cut float64) (Branch, bool) {
	if l.Least(cut) == Inf {
		return Branch{}, false
	}
	return heap.Pop(&l.Open).(Branch), true
}

// MostOpen bounds the memory of a search tree; a search that would need more
// stops, as at a time limit.
const MostOpen = 4_000_000

// GoOn tells whether to search on when the best plan has the given objective.
func (l *OpenList) GoOn(upper float64, m *Meter) bool {
	return !m.Stopped && len(l.Open) < MostOpen && (m.Gap == 0 || l.Least(CutBelow(upper)) < upper-m.Gap*upper)
}

// Least is the least bound of the open branches, +Inf when none is worth
// exploring.
func (l *OpenList) Least(cut float64) float64 {
	if len(l.Open) > 0 && l.Open[0].Bound >= cut {
		l.Open = nil
	}
	if len(l.Open) == 0 {
		return Inf
	}
	return l.Open[0].Bound
}

// Finished tells that nothing is left open.
func (l *OpenList) Finished() bool { return len(l.Open) == 0 }

// Branch is a node of the search tree: the decisions that lead to it and the
// bound known when it was made.
type Branch struct {
	Bound    float64
	seq      int
	Decision *Decision
}

// Decision restricts one task. Value is an option of the task, or a place,
// whichever the search decides on.
type Decision struct {
	Before *Decision
	Task   int32
	Value  int32
	Kind   decisionKind
}

type decisionKind int8

const (
	// LeaveOut rules out the value.
	LeaveOut decisionKind = iota
	// Take rules out all others.
	Take
	// AtMost rules out the options slower than the value.
	AtMost
	// Above rules out the options as fast as the value, and the value.
	Above
)

// openHeap is a heap of branches: the least bound first, then the latest made.
type openHeap []Branch

func (h openHeap) Len() int { return len(h) }
func (h openHeap) Less(i, j int) bool {
	if h[i].Bound != h[j].Bound {
		return h[i].Bound < h[j].Bound
	}
	return h[i].seq > h[j].seq
}
func (h openHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *openHeap) Push(x any)   { *h = append(*h, x.(Branch)) }
func (h *openHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

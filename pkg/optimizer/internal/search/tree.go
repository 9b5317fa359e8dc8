package search

import "container/heap"

// OpenList is the unexplored part of a search tree.
type OpenList struct {
	Open openHeap
	seq  int
}

// Push adds an open branch with its bound and its last decision.
func (l *OpenList) Push(bound float64, d *Decision) {
	l.seq++
	heap.Push(&l.Open, Branch{Bound: bound, seq: l.seq, Decision: d})
}

// Pop returns the branch with the lowest bound if that is below cut. Otherwise no open branch is worth exploring, and
// the list is cleared.
func (l *OpenList) Pop(cut float64) (Branch, bool) {
	if l.Least(cut) == Inf {
		return Branch{}, false
	}
	return heap.Pop(&l.Open).(Branch), true
}

// MaxOpen limits the memory of a search tree. A search that would need more stops, as at a time limit.
const MaxOpen = 4_000_000

// Continue reports whether to continue the search if the best plan has the given objective.
func (l *OpenList) Continue(upper float64, m *Meter) bool {
	return !m.Stopped && len(l.Open) < MaxOpen && (m.Gap == 0 || l.Least(CutBelow(upper)) < upper-m.Gap*upper)
}

// Least returns the lowest bound of the open branches, or +Inf if none is worth exploring.
func (l *OpenList) Least(cut float64) float64 {
	if len(l.Open) > 0 && l.Open[0].Bound >= cut {
		l.Open = nil
	}
	if len(l.Open) == 0 {
		return Inf
	}
	return l.Open[0].Bound
}

// Finished reports whether no branch is open.
func (l *OpenList) Finished() bool { return len(l.Open) == 0 }

// Branch is a node of the search tree: the decisions that lead to it and its bound at the time it was added.
type Branch struct {
	Bound    float64
	seq      int
	Decision *Decision
}

// Decision restricts one task. Value is an option of the task or a place, depending on the search.
type Decision struct {
	Before *Decision
	Task   int32
	Value  int32
	Kind   decisionKind
}

type decisionKind int8

const (
	// LeaveOut excludes the value.
	LeaveOut decisionKind = iota
	// Take excludes all other values.
	Take
	// AtMost excludes the options slower than the value.
	AtMost
	// Above excludes the value and the options that are as fast or faster.
	Above
)

// openHeap is a heap of branches: lowest bound first, then newest first.
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

package optimizer

import "container/heap"

// openList is the part of a search tree that is still to be explored.
type openList struct {
	open openHeap
	seq  int
}

func (l *openList) push(bound float64, d *decision) {
	l.seq++
	heap.Push(&l.open, branch{bound: bound, seq: l.seq, decision: d})
}

// pop returns the branch with the least bound, if that is below cut. Otherwise
// no open branch is worth exploring, and the list is cleared.
func (l *openList) pop(cut float64) (branch, bool) {
	if l.least(cut) == inf {
		return branch{}, false
	}
	return heap.Pop(&l.open).(branch), true
}

// mostOpen bounds the memory of a search tree; a search that would need more
// stops, as at a time limit.
const mostOpen = 4_000_000

// goOn tells whether to search on when the best plan has the given objective.
func (l *openList) goOn(upper float64, m *meter) bool {
	return !m.stopped && len(l.open) < mostOpen && (m.gap == 0 || l.least(cutBelow(upper)) < upper-m.gap*upper)
}

// least is the least bound of the open branches, +Inf when none is worth
// exploring.
func (l *openList) least(cut float64) float64 {
	if len(l.open) > 0 && l.open[0].bound >= cut {
		l.open = nil
	}
	if len(l.open) == 0 {
		return inf
	}
	return l.open[0].bound
}

func (l *openList) finished() bool { return len(l.open) == 0 }

// branch is a node of the search tree: the decisions that lead to it and the
// bound known when it was made.
type branch struct {
	bound    float64
	seq      int
	decision *decision
}

// decision restricts one task. Value is an option of the task, or a place,
// whichever the search decides on.
type decision struct {
	before *decision
	task   int32
	value  int32
	kind   decisionKind
}

type decisionKind int8

const (
	// leaveOut rules out the value.
	leaveOut decisionKind = iota
	// take rules out all others.
	take
	// atMost rules out the options slower than the value.
	atMost
	// above rules out the options as fast as the value, and the value.
	above
)

// openHeap is a heap of branches: the least bound first, then the latest made.
type openHeap []branch

func (h openHeap) Len() int { return len(h) }
func (h openHeap) Less(i, j int) bool {
	if h[i].bound != h[j].bound {
		return h[i].bound < h[j].bound
	}
	return h[i].seq > h[j].seq
}
func (h openHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *openHeap) Push(x any)   { *h = append(*h, x.(branch)) }
func (h *openHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

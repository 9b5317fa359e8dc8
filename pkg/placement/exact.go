package placement

import (
	"cmp"
	"math"
	"slices"
)

// largestExact is the maximum number of instances for a proof, which enumerates all placements except symmetric ones.
const largestExact = 24

// prove searches the assignment with the most weighted flow by branch and bound, adopts it if it is better than the
// current one, and reports whether it is proven optimal. It gives up if the problem is too large or after
// Options.Exact nodes. It adopts the best assignment found even then.
func (n *Network) prove() bool {
	if len(n.p.Instances) > largestExact {
		return false
	}
	e := exact{n: n, nodes: n.o.Exact}
	for i := range n.p.Instances {
		if !n.removed[i] {
			e.instances = append(e.instances, int32(i)) //nolint:gosec // rows in memory
		}
	}
	slices.SortStableFunc(e.instances, func(a, b int32) int {
		pa, pb := n.p.Instances[a].App, n.p.Instances[b].App
		return cmp.Or(cmp.Compare(n.priority(b), n.priority(a)), cmp.Compare(pa, pb))
	})
	e.classes = n.space.classes(n.p, math.MaxInt)
	e.best, e.assignment = n.flow(e.classes), slices.Clone(n.at)
	e.remaining = make([][]int, len(e.instances)+1)
	e.remaining[len(e.instances)] = make([]int, len(e.classes))
	for x := len(e.instances) - 1; x >= 0; x-- {
		e.remaining[x] = slices.Clone(e.remaining[x+1])
		e.remaining[x][slices.Index(e.classes, n.priority(e.instances[x]))]++
	}
	for _, i := range e.instances {
		if n.at[i] != Unplaced {
			n.take(i)
		}
	}
	e.count = make([]int, len(e.classes))
	e.search(0)
	n.reset(e.assignment)
	return e.nodes >= 0
}

// requeue recomputes which instances wait, and informs the racks that capacity may be free everywhere.
func (n *Network) requeue() {
	for app := range n.waiting {
		n.waiting[app] = nil
	}
	for i, m := range n.at {
		if m == Unplaced && !n.removed[i] {
			app := n.p.Instances[i].App
			n.waiting[app] = append(n.waiting[app], int32(i)) //nolint:gosec // rows in memory
		}
	}
	for m := range n.on {
		n.freed(int32(m)) //nolint:gosec // machines in memory
	}
}

// flow counts the placed instances by priority, in the order of classes.
func (n *Network) flow(classes []int) []int {
	count := make([]int, len(classes))
	for i, m := range n.at {
		if m != Unplaced {
			count[slices.Index(classes, n.priority(int32(i)))]++ //nolint:gosec // rows in memory
		}
	}
	return count
}

type exact struct {
	n          *Network
	instances  []int32
	classes    []int
	remaining  [][]int // instances from each index on, by class
	count      []int   // placed, by class
	best       []int
	assignment Assignment
	nodes      int
}

// search enumerates the placements of the instances from x on. It places instances of the same app in the order of
// machines only.
func (e *exact) search(x int) {
	if e.nodes--; e.nodes < 0 {
		return
	}
	if slices.Compare(e.count, e.best) > 0 {
		e.best, e.assignment = slices.Clone(e.count), slices.Clone(e.n.at)
	}
	if x == len(e.instances) || !e.promising(x) {
		return
	}
	i := e.instances[x]
	app := e.n.p.Instances[i].App
	first, skipped := int32(0), false
	if x > 0 && e.n.p.Instances[e.instances[x-1]].App == app {
		last := e.n.at[e.instances[x-1]]
		first, skipped = max(last, 0), last == Unplaced // if an instance is left out, later ones of its app are too
	}
	class := slices.Index(e.classes, e.n.priority(i))
	for m := first; !skipped && int(m) < len(e.n.on); m++ {
		if !e.n.fits(m, app) || e.equivalentBefore(first, m) {
			continue
		}
		e.n.put(i, m)
		e.count[class]++
		e.search(x + 1)
		e.count[class]--
		e.n.take(i)
	}
	e.search(x + 1)
}

// equivalentBefore reports whether an equivalent empty machine of the same shape comes before m.
func (e *exact) equivalentBefore(first, m int32) bool {
	if len(e.n.on[m]) > 0 {
		return false
	}
	for k := first; k < m; k++ {
		if len(e.n.on[k]) == 0 && e.n.places == nil && e.n.p.Machines[k].Shape == e.n.p.Machines[m].Shape {
			return true
		}
	}
	return false
}

// promising reports whether placing all remaining instances would beat the best assignment.
func (e *exact) promising(x int) bool {
	for c := range e.count {
		if all := e.count[c] + e.remaining[x][c]; all != e.best[c] {
			return all > e.best[c]
		}
	}
	return false
}

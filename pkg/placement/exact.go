package placement

import (
	"cmp"
	"math"
	"slices"
)

// largestExact is up to how many instances a proof is tried: it looks at all ways to place them but those alike.
const largestExact = 24

// prove searches the assignment with the most weighted flow by branch and bound,
// takes it if it is better than what the network has, and says whether it is
// proven. It gives up when the problem is large or Options.Exact nodes were not enough;
// what it found until then counts all the same.
func (n *Network) prove() bool {
	if len(n.p.Instances) > largestExact {
		return false
	}
	e := exact{n: n, nodes: n.o.Exact}
	for i := range n.p.Instances {
		if !n.left[i] {
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

// requeue works out anew which instances wait, and that anything may be free.
func (n *Network) requeue() {
	for app := range n.waiting {
		n.waiting[app] = nil
	}
	for i, m := range n.at {
		if m == Unplaced && !n.left[i] {
			app := n.p.Instances[i].App
			n.waiting[app] = append(n.waiting[app], int32(i)) //nolint:gosec // rows in memory
		}
	}
	for m := range n.on {
		n.freed(int32(m)) //nolint:gosec // machines in memory
	}
}

// flow counts what is placed by priority, in the order of classes.
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
	remaining  [][]int // instances from each on, by class
	count      []int   // placed, by class
	best       []int
	assignment Assignment
	nodes      int
}

// search places instances from x on in all ways; instances alike in the order of machines only.
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
		first, skipped = max(last, 0), last == Unplaced // after one that was left out, those alike are too
	}
	class := slices.Index(e.classes, e.n.priority(i))
	for m := first; !skipped && int(m) < len(e.n.on); m++ {
		if !e.n.fits(m, app) || e.twin(first, m) {
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

// twin says whether an empty machine of the same shape comes before m: it does as well.
func (e *exact) twin(first, m int32) bool {
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

// promising says whether placing all the rest would be better than the best.
func (e *exact) promising(x int) bool {
	for c := range e.count {
		if all := e.count[c] + e.remaining[x][c]; all != e.best[c] {
			return all > e.best[c]
		}
	}
	return false
}

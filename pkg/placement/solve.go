package placement

import (
	"cmp"
	"math"
	"slices"
)

// Move is an instance that has another place than before.
type Move struct {
	Instance int32
	From, To int32 // Unplaced is no machine
}

// Result is what a Solve changed and what it came to.
type Result struct {
	Assignment Assignment
	Placed     int
	Waiting    int    // instances without a machine, those that were removed not counted
	Moves      []Move // against the assignment before: placements, migrations and preemptions, by instance
	Optimal    bool   // proven: no assignment has more weighted flow
}

// Solve routes what waits, the higher priorities first: along the shortest path
// with room; else by migration, moving others on; else by preemption of lower
// priorities, the fewest and lowest. What is preempted waits again, and is
// searched for again. No instance is ever displaced for one of its own or a lower
// priority and left without a machine, unless a proof shows that the weighted flow grows by it; it never shrinks.
func (n *Network) Solve() *Result {
	before := slices.Clone(n.at)
	if n.places != nil {
		n.packing()
	} else {
		n.fill()
		n.augment()
	}
	optimal := n.waits() == 0
	if !optimal && n.o.Exact > 0 {
		optimal = n.prove()
	}
	return n.result(before, optimal)
}

// waits is how many instances have no machine.
func (n *Network) waits() int {
	w := 0
	for _, q := range n.waiting {
		w += len(q)
	}
	return w
}

func (n *Network) result(before Assignment, optimal bool) *Result {
	r := &Result{Assignment: slices.Clone(n.at), Waiting: n.waits(), Optimal: optimal}
	for i, m := range n.at {
		if m != Unplaced {
			r.Placed++
		}
		if m != before[i] {
			r.Moves = append(r.Moves, Move{int32(i), before[i], m}) //nolint:gosec // rows in memory
		}
	}
	return r
}

// fill places what fits without moving anything. If there is room for all, whichever needs fewer machines: the largest
// first, or machine by machine. If not, the higher priorities come first; then the largest of each again, or the
// smallest, of which more may fit: of equal weight the number counts.
func (n *Network) fill() {
	n.looks = mostLooks
	if n.waits() == 0 {
		return
	}
	before := slices.Clone(n.at)
	if n.fewest(before); n.waits() == 0 {
		return
	}
	classes := n.space.classes(n.p, math.MaxInt)
	var flow []int
	var filled Assignment
	byPriority := func(a, b int32) int { return cmp.Compare(n.p.Apps[b].Priority, n.p.Apps[a].Priority) }
	large, small := slices.Clone(n.sorted()), slices.Clone(n.sorted())
	slices.Reverse(small)
	for _, order := range [][]int32{large, small} {
		slices.SortStableFunc(order, byPriority)
		n.reset(before)
		n.inOrder(order)
		if f := n.flow(classes); flow == nil || slices.Compare(f, flow) > 0 {
			flow, filled = f, slices.Clone(n.at)
		}
	}
	n.reset(filled)
}

// fewest places all on the fewest machines that it finds, if it finds room for all.
func (n *Network) fewest(before Assignment) {
	mixed := n.mix()
	machines := n.used()
	if mixed && machines <= LowerBound(n.p) {
		return
	}
	at := slices.Clone(n.at)
	n.reset(before)
	if n.inOrder(n.sorted()); mixed && (n.waits() > 0 || n.used() > machines) {
		n.reset(at)
	}
}

func (n *Network) inOrder(apps []int32) {
	for _, app := range apps {
		n.direct(app)
	}
}

// reset changes to another assignment that is known to be possible.
func (n *Network) reset(to Assignment) {
	for i, m := range n.at {
		if m != to[i] && m != Unplaced {
			n.take(int32(i)) //nolint:gosec // rows in memory
		}
	}
	for i, m := range to {
		if n.at[i] != m {
			n.put(int32(i), m) //nolint:gosec // rows in memory
		}
	}
	n.requeue()
}

// direct places the instances of an app for which there is room. Of those alike, the first that finds none speaks for
// all.
func (n *Network) direct(app int32) {
	queue := n.waiting[app]
	for len(queue) > 0 {
		m := n.path(app, Unplaced)
		if m == Unplaced {
			break
		}
		for len(queue) > 0 && n.fits(m, app) {
			n.put(queue[0], m)
			queue = queue[1:]
		}
	}
	n.waiting[app] = queue
}

// mostLooks bounds the searches for migrations of one Solve: where very much has no place, most has none by migration
// either.
const mostLooks = 20_000_000

// augment places what needs others to move or to go, until nothing more can be gained.
func (n *Network) augment() {
	tried := make([]uint32, len(n.p.Apps)) // the epoch at which an app last found no way
	ranked := slices.Clone(n.sorted())
	slices.SortStableFunc(ranked, func(a, b int32) int {
		return cmp.Compare(n.p.Apps[b].Priority, n.p.Apps[a].Priority)
	})
	for {
		gained := false
		for _, app := range ranked {
			for len(n.waiting[app]) > 0 && tried[app] != n.epoch {
				i := n.waiting[app][0]
				if !n.migrate(i, n.looks > 0) && !n.preempt(i) {
					tried[app] = n.epoch
					break
				}
				n.waiting[app] = remove(n.waiting[app], i)
				gained = true
			}
		}
		if !gained {
			return
		}
	}
}

func remove(queue []int32, i int32) []int32 {
	at := slices.Index(queue, i)
	return slices.Delete(slices.Clone(queue), at, at+1)
}

// migrate finds an instance a path on which others move on to other machines. Without push only a direct one is looked
// for.
func (n *Network) migrate(i int32, push bool) bool {
	depth := 0
	if push {
		depth = n.o.Depth
	}
	n.journal = n.journal[:0]
	if !n.route(i, depth, Unplaced) {
		return false
	}
	n.commit()
	return true
}

// commit makes what the journal holds known to the racks.
func (n *Network) commit() {
	for _, s := range n.journal {
		if s.from != Unplaced {
			n.freed(s.from)
		}
	}
	n.journal = n.journal[:0]
}

// route places an instance, on any machine but one, pushing others on as deep as it may. It leaves everything as it was
// when it cannot.
func (n *Network) route(i int32, depth int, except int32) bool {
	app := n.p.Instances[i].App
	if m := n.path(app, except); m != Unplaced {
		n.move(i, m)
		return true
	}
	if depth == 0 {
		return false
	}
	// Deeper searches look at fewer machines, so that a search stays small.
	for _, m := range n.nearest(app, except, max(2, n.o.Width>>(2*(n.o.Depth-depth)))) {
		mark := len(n.journal)
		if n.push(i, m, depth) {
			return true
		}
		n.undo(mark)
	}
	return false
}

// push makes room for an instance on a machine by routing others elsewhere.
func (n *Network) push(i, m int32, depth int) bool {
	leave := n.leave(m, n.p.Instances[i].App, nil)
	if leave == nil {
		return false
	}
	for _, other := range leave {
		n.move(other, Unplaced)
	}
	n.move(i, m)
	for _, other := range leave {
		if !n.route(other, depth-1, m) {
			return false
		}
	}
	return true
}

// preempt places an instance where what has to go for it weighs least: its highest priority is the lowest, and of that
// the fewest go. What goes waits.
func (n *Network) preempt(i int32) bool {
	app := n.p.Instances[i].App
	rank := n.p.Apps[app].Priority
	if rank == 0 {
		return false
	}
	best, loss := int32(-1), []int(nil)
	var victims []int32
	lower := func(other int32) bool { return n.priority(other) < rank }
	for m := range n.on {
		if !n.yields(int32(m), app) { //nolint:gosec // machines in memory
			continue
		}
		leave := n.leave(int32(m), app, lower) //nolint:gosec // machines in memory
		if leave == nil {
			continue
		}
		l := n.loss(leave, rank)
		if best < 0 || slices.Compare(l, loss) < 0 {
			best, loss, victims = int32(m), l, slices.Clone(leave) //nolint:gosec // machines in memory
		}
	}
	if best < 0 {
		return false
	}
	n.journal = n.journal[:0]
	for _, v := range victims {
		n.move(v, Unplaced)
		n.waiting[n.p.Instances[v].App] = append(n.waiting[n.p.Instances[v].App], v)
	}
	n.move(i, best)
	n.commit()
	return true
}

// yields says whether a machine would have room for one of an app if all lower priorities went: a quick look before
// it is settled which ones would.
func (n *Network) yields(m, app int32) bool {
	room := n.space.room
	copy(room, n.freeOf(m))
	for _, i := range n.on[m] {
		other := &n.p.Apps[n.p.Instances[i].App]
		if other.Priority < n.p.Apps[app].Priority {
			for d, x := range other.Demand {
				room[d] += x
			}
		}
	}
	return within(n.p.Apps[app].Demand, room)
}

func (n *Network) priority(i int32) int { return n.p.Apps[n.p.Instances[i].App].Priority }

// loss counts instances by priority below rank, the highest first: what is compared in place of their weights.
func (n *Network) loss(instances []int32, rank int) []int {
	classes := n.space.classes(n.p, rank)
	l := make([]int, len(classes))
	for _, i := range instances {
		l[slices.Index(classes, n.priority(i))]++
	}
	return l
}

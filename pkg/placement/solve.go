package placement

import (
	"cmp"
	"math"
	"slices"
)

// Move is a change of an instance's machine.
type Move struct {
	Instance int32
	From, To int32 // Unplaced means no machine
}

// Result is the outcome of a Solve.
type Result struct {
	Assignment Assignment
	Placed     int
	Waiting    int    // instances without a machine, except removed ones
	Moves      []Move // changes to the previous assignment (placements, migrations and preemptions), by instance
	Optimal    bool   // proven: no assignment has more weighted flow
}

// Solve places the waiting instances, higher priorities first: along the shortest path with room; otherwise by
// migration, which moves other instances to other machines; otherwise by preemption of lower priorities, the fewest
// and lowest. Preempted instances wait and are tried again. An instance never loses its machine to one of equal or
// lower priority and stays without, unless a proof shows that this increases the weighted flow. The weighted flow
// never decreases.
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

// waits returns the number of instances without a machine.
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

// fill places the instances that fit, without moving any. If there is room for all, it uses the way that needs the
// fewest machines: largest first, machine by machine, or, with Options.Compact, levelling. Otherwise higher
// priorities come first. Within a priority, it places either the largest or the smallest first (more of the smallest
// may fit), whichever results in more weighted flow.
func (n *Network) fill() {
	n.looks = maxLooks
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

// fewest places all instances on as few machines as it can, if it finds room for all. Otherwise it leaves any
// assignment.
func (n *Network) fewest(before Assignment) {
	bound, machines := LowerBound(n.p), math.MaxInt
	var at Assignment
	for _, way := range n.ways() {
		n.reset(before)
		if !way() {
			continue
		}
		if used := n.used(); used <= machines {
			at, machines = slices.Clone(n.at), used
		}
		if machines <= bound || n.o.Compact && float64(machines) <= (1+near)*float64(bound) {
			break
		}
	}
	if at != nil {
		n.reset(at)
	}
}

// ways are the methods that place all instances. Each reports whether it found room for all.
func (n *Network) ways() []func() bool {
	firstFit := func() bool {
		n.inOrder(n.sorted())
		return n.waits() == 0
	}
	if n.o.Compact {
		return []func() bool{n.mix, n.levelled, firstFit}
	}
	return []func() bool{n.mix, firstFit}
}

// near is the share above the lower bound up to which no other way is tried: it would rarely be better.
const near = 0.1

func (n *Network) inOrder(apps []int32) {
	for _, app := range apps {
		n.direct(app)
	}
}

// reset changes to another assignment, which must be valid.
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

// direct places the instances of an app for which there is room. All are alike, so it stops at the first one without
// room.
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

// maxLooks limits the searches for migrations in one Solve. If very many instances have no room, migration does not
// help most of them either.
const maxLooks = 20_000_000

// augment places instances by migration and preemption until nothing more can be gained.
func (n *Network) augment() {
	tried := make([]uint32, len(n.p.Apps)) // the epoch of the last failed attempt for an app
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

// migrate places an instance by moving others to other machines. Without push it only looks for free room.
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

// commit informs the racks about the capacity that the moves in the journal freed.
func (n *Network) commit() {
	for _, s := range n.journal {
		if s.from != Unplaced {
			n.freed(s.from)
		}
	}
	n.journal = n.journal[:0]
}

// route places an instance on any machine except one, pushing others to a limited depth. On failure it leaves
// everything unchanged.
func (n *Network) route(i int32, depth int, except int32) bool {
	app := n.p.Instances[i].App
	if m := n.path(app, except); m != Unplaced {
		n.move(i, m)
		return true
	}
	if depth == 0 {
		return false
	}
	// Deeper searches look at fewer machines, which keeps a search small.
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
	leave := n.chooseVictims(m, n.p.Instances[i].App, nil)
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

// preempt places an instance where preemption costs least: the highest preempted priority is the lowest possible, and
// of that priority the fewest are preempted. Preempted instances wait.
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
		if !n.couldMakeRoom(int32(m), app) { //nolint:gosec // machines in memory
			continue
		}
		leave := n.chooseVictims(int32(m), app, lower) //nolint:gosec // machines in memory
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

// couldMakeRoom reports whether a machine would have room for an instance of an app if all lower priorities left. It is
// a quick check before the exact choice.
func (n *Network) couldMakeRoom(m, app int32) bool {
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

// loss counts instances by priority below rank, highest first. Comparing these counts is the same as comparing
// weights.
func (n *Network) loss(instances []int32, rank int) []int {
	classes := n.space.classes(n.p, rank)
	l := make([]int, len(classes))
	for _, i := range instances {
		l[slices.Index(classes, n.priority(i))]++
	}
	return l
}

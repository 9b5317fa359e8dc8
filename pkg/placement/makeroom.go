package placement

import (
	"math"
	"slices"
)

// MaxDisplaced is the maximum number of instances that may leave one machine for another instance. The search grows
// exponentially with it.
const MaxDisplaced = 3

// maxTries limits one search for room. If this many attempts fail, more hardly ever help.
const maxTries = 100_000

// Loss is the cost of removing an instance from its machine: Move if it continues on another machine, Leave if it has
// to wait. +Inf means that this is not allowed.
type Loss struct{ Move, Leave float64 }

// Room is the result of MakeRoom: the machines for the instances, in their order; the moves of other instances; and
// the total loss.
type Room struct {
	Machines []int32
	Moves    []Move
	Loss     float64
}

// MakeRoom determines where some instances without a machine could go and which other instances would have to leave
// their machines for that. It returns nil if there is no way with a loss below most. It changes nothing.
//
// If there is a machine with room, the instance goes there. Otherwise at most MaxDisplaced instances leave one
// machine. Each of them goes to a machine that has room now (the paper's migration with a depth of one, §IV.B), or
// waits. MakeRoom takes the way with the lowest loss; if several are equal, the first machine, and on it the
// instances that came first. Several instances are placed one after another. A search ends after maxTries attempts.
//
// The caller chooses the weights. An instance that must not be displaced has a Loss of +Inf, which no sum of others
// outweighs (the paper's equations 3 to 5).
func (n *Network) MakeRoom(instances []int32, most float64, loss func(int32) Loss) *Room {
	x := &roomSearch{Network: n, lossOf: loss, out: &Room{}, emptied: make([]bool, len(n.on)), tries: maxTries}
	n.journal = n.journal[:0]
	defer n.undo(0)
	for _, i := range instances {
		if !x.place(i, most) {
			return nil
		}
	}
	return x.out
}

// roomSearch is the state of a search for room.
type roomSearch struct {
	*Network
	lossOf  func(int32) Loss
	out     *Room
	emptied []bool // machines that instances have left; the freed room is reserved for the new instances
	tries   int

	// For the current instance: its app, the machine under examination, the moves tried so far, and the best way
	// found.
	app, host   int32
	tried, best []Move
	spent       float64
	on          int32
	least       float64
	to          []int32 // machines for leaving instances, in order of preference
}

// place finds room for one instance and moves it there.
func (x *roomSearch) place(i int32, most float64) bool {
	x.app, x.on, x.best, x.least = x.p.Instances[i].App, Unplaced, nil, 0
	x.order()
	for m := range x.Network.on {
		if x.fits(int32(m), x.app) { //nolint:gosec // machines in memory
			x.on = int32(m) //nolint:gosec // machines in memory
			break
		}
	}
	if x.on == Unplaced {
		x.least = most - x.out.Loss
		for m := range x.Network.on {
			x.host, x.tried, x.spent = int32(m), x.tried[:0], 0 //nolint:gosec // machines in memory
			if x.couldMakeRoom() {
				there := slices.Clone(x.Network.on[m])
				slices.Sort(there)
				x.removeMore(there)
			}
		}
	}
	if x.on == Unplaced {
		return false
	}
	for _, l := range x.best {
		x.emptied[l.From] = true
		x.move(l.Instance, l.To)
	}
	x.move(i, x.on)
	x.out.Machines = append(x.out.Machines, x.on)
	x.out.Moves = append(x.out.Moves, x.best...)
	x.out.Loss += x.least
	return true
}

// order lists the machines for leaving instances. Machines that the new instance could not use come first, because
// more instances of its app may follow.
func (x *roomSearch) order() {
	x.to = x.to[:0]
	for _, useful := range []bool{false, true} {
		for m := range x.emptied {
			if within(x.p.Apps[x.app].Demand, x.p.Shapes[x.p.Machines[m].Shape].Capacity) == useful {
				x.to = append(x.to, int32(m)) //nolint:gosec // machines in memory
			}
		}
	}
}

// couldMakeRoom reports whether the machine would have room if all instances that may leave did. It is a quick check
// before the exact choice.
func (x *roomSearch) couldMakeRoom() bool {
	room := x.space.room
	copy(room, x.freeOf(x.host))
	for _, i := range x.Network.on[x.host] {
		if l := x.lossOfLeaving(i); min(l.Move, l.Leave) < x.least {
			for d, need := range x.p.Apps[x.p.Instances[i].App].Demand {
				room[d] += need
			}
		}
	}
	return within(x.p.Apps[x.app].Demand, room)
}

// lossOfLeaving returns the loss if an instance leaves its machine. An instance that has already been moved must not
// move again.
func (x *roomSearch) lossOfLeaving(i int32) Loss {
	if slices.ContainsFunc(x.out.Moves, func(m Move) bool { return m.Instance == i }) {
		return Loss{math.Inf(1), math.Inf(1)}
	}
	return x.lossOf(i)
}

// removeMore removes more of the given instances from the machine, in all combinations, until there is room.
func (x *roomSearch) removeMore(there []int32) {
	if x.fits(x.host, x.app) {
		if x.spent < x.least {
			x.best, x.on, x.least = slices.Clone(x.tried), x.host, x.spent
		}
		return
	}
	if len(x.tried) == MaxDisplaced {
		return
	}
	for k, i := range there {
		l, app := x.lossOfLeaving(i), x.p.Instances[i].App
		for _, m := range x.to {
			if x.spent+l.Move < x.least && m != x.host && !x.emptied[m] && x.fits(m, app) {
				x.try(i, m, l.Move, there[k+1:])
			}
		}
		if x.spent+l.Leave < x.least {
			x.try(i, Unplaced, l.Leave, there[k+1:])
		}
	}
}

// try removes an instance from the machine and continues with the instances after it.
func (x *roomSearch) try(i, to int32, loss float64, rest []int32) {
	if x.tries == 0 {
		return
	}
	x.tries--
	mark, spent := len(x.journal), x.spent
	x.move(i, to)
	x.tried, x.spent = append(x.tried, Move{i, x.host, to}), spent+loss
	x.removeMore(rest)
	x.tried, x.spent = x.tried[:len(x.tried)-1], spent
	x.undo(mark)
}

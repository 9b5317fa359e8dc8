package placement

import (
	"math"
	"slices"
)

// MostLeave is how many instances may leave one machine for another instance: a search over what leaves grows with its
// power.
const MostLeave = 3

// mostTries bounds one search for room: where so many ways lead nowhere hardly any leads anywhere.
const mostTries = 100_000

// Loss is what is lost where an instance leaves the machine that it runs on: Move where it goes on on another one,
// Leave where it waits. +Inf is never.
type Loss struct{ Move, Leave float64 }

// Room is how instances have room: on which machines, in their order; what leaves its machine for that; and what is
// lost by it.
type Room struct {
	Machines []int32
	Moves    []Move
	Loss     float64
}

// MakeRoom finds out where some instances that have no machine would go, and which others would have to leave theirs
// for that, and loses less than so much: nil where it can not. It changes nothing.
//
// An instance goes where it has room as things are, where there is such a machine. Else at most MostLeave leave one
// machine: each goes where there is room now (the paper's migration with a depth of one, §IV.B), or waits. Of all such
// ways that of the least loss is taken; of those that of the first machine, on which those leave that came first.
// Several instances are given room one after another. A search ends after mostTries.
//
// Weights are the caller's: whom an instance may not displace has a Loss of +Inf, which no sum of others outweighs (the
// paper's equations 3 to 5).
func (n *Network) MakeRoom(instances []int32, most float64, loss func(int32) Loss) *Room {
	x := &roomSearch{Network: n, lossOf: loss, out: &Room{}, emptied: make([]bool, len(n.on)), tries: mostTries}
	n.journal = n.journal[:0]
	defer n.undo(0)
	for _, i := range instances {
		if !x.place(i, most) {
			return nil
		}
	}
	return x.out
}

// roomSearch is a search for room.
type roomSearch struct {
	*Network
	lossOf  func(int32) Loss
	out     *Room
	emptied []bool // machines that something has left: what that frees is for those that it left for
	tries   int

	// Of the instance at hand: its app, the machine that is looked at, what has left it so far, and the best way found.
	app, host   int32
	tried, best []Move
	spent       float64
	on          int32
	least       float64
	to          []int32 // machines, as what leaves is to go to them
}

// place finds room for one instance and has it go there.
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
			if x.yieldsAll() {
				there := slices.Clone(x.Network.on[m])
				slices.Sort(there)
				x.leaving(there)
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

// order lists machines as what leaves one is to go to them: those first that are of no use to the instance itself, as
// more of its kind may come.
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

// yieldsAll says whether the machine would have room if all left that ever may: a quick look before it is settled which
// ones do.
func (x *roomSearch) yieldsAll() bool {
	room := x.space.room
	copy(room, x.freeOf(x.host))
	for _, i := range x.Network.on[x.host] {
		if l := x.loss1(i); min(l.Move, l.Leave) < x.least {
			for d, need := range x.p.Apps[x.p.Instances[i].App].Demand {
				room[d] += need
			}
		}
	}
	return within(x.p.Apps[x.app].Demand, room)
}

// loss1 is what is lost by an instance that leaves. What has left a machine for another leaves no other.
func (x *roomSearch) loss1(i int32) Loss {
	if slices.ContainsFunc(x.out.Moves, func(m Move) bool { return m.Instance == i }) {
		return Loss{math.Inf(1), math.Inf(1)}
	}
	return x.lossOf(i)
}

// leaving has more of those on the machine leave it, each in its turn, until there is room.
func (x *roomSearch) leaving(there []int32) {
	if x.fits(x.host, x.app) {
		if x.spent < x.least {
			x.best, x.on, x.least = slices.Clone(x.tried), x.host, x.spent
		}
		return
	}
	if len(x.tried) == MostLeave {
		return
	}
	for k, i := range there {
		l, app := x.loss1(i), x.p.Instances[i].App
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

// try has an instance leave the machine, and goes on with those after it.
func (x *roomSearch) try(i, to int32, loss float64, rest []int32) {
	if x.tries == 0 {
		return
	}
	x.tries--
	mark, spent := len(x.journal), x.spent
	x.move(i, to)
	x.tried, x.spent = append(x.tried, Move{i, x.host, to}), spent+loss
	x.leaving(rest)
	x.tried, x.spent = x.tried[:len(x.tried)-1], spent
	x.undo(mark)
}

package placement

import (
	"cmp"
	"slices"
)

// scratch is reusable memory for searches.
type scratch struct {
	over    []int64
	room    []int64
	ranked  []lack
	ranks   []int
	current int
}

// lack is the amount of room that a machine lacks for an app.
type lack struct {
	machine int32
	by      float64
}

func newScratch(dims int) scratch {
	return scratch{over: make([]int64, dims), room: make([]int64, dims)}
}

// classes returns the priorities of apps below rank, highest first.
func (s *scratch) classes(p *Problem, rank int) []int {
	if s.current == rank && s.ranks != nil {
		return s.ranks
	}
	s.ranks = []int{}
	for _, a := range p.Apps {
		if a.Priority < rank {
			s.ranks = append(s.ranks, a.Priority)
		}
	}
	slices.SortFunc(s.ranks, func(a, b int) int { return cmp.Compare(b, a) })
	s.ranks, s.current = slices.Compact(s.ranks), rank
	return s.ranks
}

// nearest returns at most width machines, those that lack least room for an app first.
func (n *Network) nearest(app, except int32, width int) []int32 {
	need := n.p.Apps[app].Demand
	ranked := n.space.ranked[:0]
	for m := range n.on {
		l := lack{machine: int32(m)} //nolint:gosec // machines in memory
		if l.machine == except || !within(need, n.p.Shapes[n.p.Machines[m].Shape].Capacity) {
			continue
		}
		free := n.freeOf(l.machine)
		for d, x := range need {
			if x > free[d] {
				l.by = max(l.by, float64(x-free[d])/float64(x))
			}
		}
		full := len(ranked) == width
		if full && l.by >= ranked[width-1].by {
			continue
		}
		l.by += float64(n.clashes(l.machine, app))
		if full {
			if l.by >= ranked[width-1].by {
				continue
			}
			ranked = ranked[:width-1]
		}
		at, _ := slices.BinarySearchFunc(ranked, l, func(a, b lack) int {
			if a.by <= b.by {
				return -1
			}
			return 1
		})
		ranked = slices.Insert(ranked, at, l)
	}
	n.space.ranked = ranked
	n.looks -= len(n.on)
	nearest := make([]int32, 0, len(ranked))
	for _, l := range ranked {
		nearest = append(nearest, l.machine)
	}
	return nearest
}

// clashes returns how many instances on a machine the rules forbid if one more instance of an app is added.
func (n *Network) clashes(m, app int32) int32 {
	held, clashes := &n.held[m], int32(0)
	self := held.Get(app) + 1
	clashes += max(0, self-n.limits.Self[app])
	for _, p := range n.limits.Partners[app] {
		switch other := held.Get(p.App); {
		case other > 0 && self > p.Self:
			clashes += other
		case other > p.Other:
			clashes += other - p.Other
		}
	}
	return clashes
}

// chooseVictims chooses the instances to remove from a machine so that it has room for an instance of an app. First
// it chooses those that rules forbid. Then, while capacity is missing, it chooses from the lowest priority the one
// that frees the most. In the end it keeps those whose removal has become unnecessary. It only chooses instances for
// which may returns true (nil means all), and returns nil if these are not enough.
func (n *Network) chooseVictims(m, app int32, may func(int32) bool) []int32 {
	if n.limits.Self[app] < 1 || !within(n.p.Apps[app].Demand, n.p.Shapes[n.p.Machines[m].Shape].Capacity) {
		return nil
	}
	if n.places != nil && !n.places.allows(m, app) {
		return nil // removing instances from the machine does not help
	}
	l := leaving{n: n, m: m, app: app}
	for _, i := range n.on[m] {
		if may == nil || may(i) {
			l.candidates = append(l.candidates, i)
		}
	}
	// The lowest priority goes first.
	slices.SortStableFunc(l.candidates, func(a, b int32) int { return cmp.Compare(n.priority(a), n.priority(b)) })
	over := n.space.over
	free := n.freeOf(m)
	for d, x := range n.p.Apps[app].Demand {
		over[d] = x - free[d]
	}
	if !l.forbidden() || !l.relieveOverload(over) {
		return nil
	}
	l.keepUnneeded(over)
	if len(l.chosen) == 0 {
		return nil
	}
	return l.chosen
}

// leaving is a choice of instances that leave a machine.
type leaving struct {
	n          *Network
	m, app     int32
	candidates []int32
	chosen     []int32
	forced     int // number of instances, first in gone, that rules forbid
}

// forbidden chooses the instances that rules do not allow to stay, and reports whether all of them may leave.
func (l *leaving) forbidden() bool {
	n := l.n
	held := &n.held[l.m]
	self := held.Get(l.app) + 1
	if excess := self - n.limits.Self[l.app]; excess > 0 {
		if !l.chooseSome(l.app, excess) {
			return false
		}
		self -= excess
	}
	for _, p := range n.limits.Partners[l.app] {
		other := held.Get(p.App)
		if other == 0 {
			continue
		}
		// With this many instances of the app, some or all instances of the other app must leave.
		excess := other - p.Other
		if self > p.Self {
			excess = other
		}
		if excess > 0 && !l.chooseSome(p.App, excess) {
			return false
		}
	}
	l.forced = len(l.chosen)
	return true
}

// chooseSome chooses count instances of an app.
func (l *leaving) chooseSome(app, count int32) bool {
	for _, i := range l.candidates {
		if count > 0 && l.n.p.Instances[i].App == app {
			l.chosen = append(l.chosen, i)
			count--
		}
	}
	return count <= 0
}

func (l *leaving) demand(i int32) []int64 { return l.n.p.Apps[l.n.p.Instances[i].App].Demand }

// relieveOverload chooses more instances while capacity is missing: of the lowest priority the one that frees most
// where it is missing.
func (l *leaving) relieveOverload(over []int64) bool {
	for _, i := range l.chosen {
		for d, x := range l.demand(i) {
			over[d] -= x
		}
	}
	for {
		if !slices.ContainsFunc(over, func(o int64) bool { return o > 0 }) {
			return true
		}
		best, most, rank := int32(-1), 0.0, 0
		for _, i := range l.candidates {
			if best >= 0 && l.n.priority(i) > rank {
				break
			}
			if slices.Contains(l.chosen, i) {
				continue
			}
			if room := relief(over, l.demand(i)); room > most {
				best, most, rank = i, room, l.n.priority(i)
			}
		}
		if best < 0 {
			return false
		}
		l.chosen = append(l.chosen, best)
		for d, x := range l.demand(best) {
			over[d] -= x
		}
	}
}

// relief returns how much of the missing capacity a demand would free, as the sum of the shares at each point.
func relief(over, demand []int64) float64 {
	room := 0.0
	for d, o := range over {
		if o > 0 {
			room += float64(min(o, demand[d])) / float64(o)
		}
	}
	return room
}

// keepUnneeded removes from the choice the instances that need not leave, those of the highest priority first.
func (l *leaving) keepUnneeded(over []int64) {
	chosen := slices.Clone(l.chosen[l.forced:])
	slices.SortStableFunc(chosen, func(a, b int32) int { return cmp.Compare(l.n.priority(b), l.n.priority(a)) })
	for _, i := range chosen {
		stays := true
		for d, x := range l.demand(i) {
			stays = stays && over[d]+x <= 0
		}
		if !stays {
			continue
		}
		for d, x := range l.demand(i) {
			over[d] += x
		}
		l.chosen = slices.DeleteFunc(l.chosen, func(j int32) bool { return j == i })
	}
}

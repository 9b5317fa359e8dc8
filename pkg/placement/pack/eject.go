package pack

import (
	"math/rand/v2"
	"slices"
)

// inserter puts waiting instances on machines, if necessary in place of others that then wait. It is the ejection
// pool of Nagata and Bräysy's fleet minimisation (A powerful route minimization heuristic for the vehicle routing
// problem with time windows, 2009), with machines instead of routes.
type inserter struct {
	*state
	rng   *rand.Rand
	fails []uint32 // number of failed attempts of each instance; such instances are expensive to eject

	over    []int32 // how far a machine would be over its capacity
	chosen  []int   // positions of the instances to eject
	ejected ejection
}

func newInserter(s *state, rng *rand.Rand) *inserter {
	return &inserter{state: s, rng: rng, fails: make([]uint32, len(s.app)), over: make([]int32, s.dims)}
}

// insert puts an instance on a machine where it fits: the best of the first three found from a random one on.
func (n *inserter) insert(i int32) bool {
	const enough = 3
	if n.open == 0 {
		return false
	}
	a := n.app[i]
	best, least, found := int32(-1), float32(0), 0
	k := n.random()
	for range n.open {
		if k++; int(k) == n.open {
			k = 0
		}
		if !n.fits(k, a) {
			continue
		}
		if r := n.rise(k, a); best < 0 || r < least {
			best, least = k, r
		}
		if found++; found == enough {
			break
		}
	}
	if best >= 0 {
		n.add(best, i)
	}
	return best >= 0
}

// resetFails clears the counts of failed tries, because an instance that was hard to place before may be easy now.
func (n *inserter) resetFails() { clear(n.fails) }

// random returns a random machine in use.
func (n *inserter) random() int32 {
	return int32(n.rng.IntN(n.open)) //nolint:gosec // machines in memory
}

// ejection is a set of instances that leave a machine to make room for another.
type ejection struct {
	machine int32
	leave   []int // positions, descending
	cost    float32
}

// eject makes room for an instance on the cheapest of some random machines, if that costs less than most.
func (n *inserter) eject(i int32, machines int, most float32) bool {
	e := &n.ejected
	e.machine, e.cost = -1, most
	for range machines {
		n.cheapest(e, n.random(), n.app[i])
	}
	if e.machine < 0 {
		return false
	}
	for _, position := range e.leave {
		n.pool = append(n.pool, n.remove(e.machine, position))
	}
	n.add(e.machine, i)
	return true
}

// cost returns the cost of ejecting an instance. Large instances are harder to place again, and even more so those
// that failed before.
func (n *inserter) cost(i int32) float32 {
	s := n.size[n.app[i]]
	return s * s * float32(1+n.fails[i])
}

// cheapest looks for an ejection from machine k for an instance of app a that is cheaper than e: one instance that
// frees enough room, or the instances that rules forbid together with it.
func (n *inserter) cheapest(e *ejection, k, a int32) {
	for position, i := range n.on[k] {
		b := n.app[i]
		if a == b {
			continue
		}
		if c := n.cost(i); c < e.cost && n.fitsFor(k, a, b) {
			e.machine, e.cost, e.leave = k, c, append(e.leave[:0], position)
		}
	}
	n.several(e, k, a)
}

// maxEjected is the maximum number of instances ejected for one.
const maxEjected = 4

// several looks for an ejection of more than one instance: first those that rules forbid, then, while the machine is
// over its capacity, the one that frees most room for its cost.
func (n *inserter) several(e *ejection, k, a int32) {
	n.chosen = n.chosen[:0]
	cost := n.forbidden(k, a)
	if cost >= e.cost || len(n.chosen) > maxEjected {
		return
	}
	load, capacity, need := n.loadOf(k), n.capacityOf(n.shape[k]), n.needOf(a)
	for d, x := range need {
		n.over[d] = load[d] + x - capacity[d]
	}
	for _, position := range n.chosen {
		n.relieve(k, position)
	}
	for {
		d := n.fullest(capacity)
		if n.over[d] <= 0 {
			break
		}
		position, c := n.relief(k, d)
		cost += c
		if position < 0 || cost >= e.cost || len(n.chosen) == maxEjected {
			return
		}
		n.chosen = append(n.chosen, position)
		n.relieve(k, position)
	}
	if len(n.chosen) < 2 {
		return // single instances were tried before
	}
	slices.Sort(n.chosen)
	slices.Reverse(n.chosen)
	e.machine, e.cost, e.leave = k, cost, append(e.leave[:0], n.chosen...)
}

// forbidden chooses the instances that rules forbid together with an instance of a, and returns their cost.
func (n *inserter) forbidden(k, a int32) float32 {
	held, cost := &n.held[k], float32(0)
	leave := func(app, count int32) {
		for position, i := range n.on[k] {
			if count <= 0 || len(n.chosen) > maxEjected {
				return
			}
			if n.app[i] == app {
				n.chosen = append(n.chosen, position)
				cost += n.cost(i)
				count--
			}
		}
	}
	self := held.Get(a) + 1
	if self > n.limits.Self[a] {
		leave(a, self-n.limits.Self[a])
		self = n.limits.Self[a]
	}
	for _, p := range n.limits.Partners[a] {
		switch count := held.Get(p.App); {
		case count > 0 && self > p.Self:
			leave(p.App, count)
		case count > p.Other:
			leave(p.App, count-p.Other)
		}
	}
	return cost
}

func (n *inserter) relieve(k int32, position int) {
	for d, x := range n.needOf(n.app[n.on[k][position]]) {
		n.over[d] -= x
	}
}

// fullest returns the point at which a machine is most over its capacity, relative to it.
func (n *inserter) fullest(capacity []int32) int {
	worst, most := 0, float32(0)
	for d, o := range n.over {
		if o <= 0 {
			continue
		}
		if part := float32(o) / float32(capacity[d]+1); part > most {
			worst, most = d, part
		}
	}
	return worst
}

// relief returns the instance, not yet chosen, that frees most room at a point for its cost; -1 if there is none.
func (n *inserter) relief(k int32, d int) (position int, cost float32) {
	position, best := -1, float32(0)
	for x, i := range n.on[k] {
		if slices.Contains(n.chosen, x) {
			continue
		}
		room := min(n.needOf(n.app[i])[d], n.over[d])
		c := n.cost(i)
		if worth := float32(room) / c; room > 0 && worth > best {
			position, cost, best = x, c, worth
		}
	}
	return position, cost
}

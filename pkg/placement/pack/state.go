package pack

import (
	"slices"

	"github.com/tradewind-broker/tradewind/internal/placement/energy"
	"github.com/tradewind-broker/tradewind/internal/placement/tally"
)

// state is an assignment that respects every constraint, and the pool of waiting instances.
type state struct {
	*model
	machine []int32        // the problem's number of each machine
	shape   []int32        // of each machine
	open    int            // machines [0, open) are in use, the others are empty
	on      [][]int32      // instances on each machine
	load    []int32        // of each machine, dims long
	level   []float32      // sum of the features on each machine
	price   []float32      // energy added by a unit of a feature: twice weight times level
	held    []tally.Counts // number of instances of each app on a machine
	at      []int32        // machine of each instance, or -1
	pool    []int32        // waiting instances
}

func newState(m *model) *state {
	n := len(m.shape)
	s := &state{
		model: m, machine: slices.Clone(m.machine), shape: slices.Clone(m.shape), on: make([][]int32, n),
		load: make([]int32, n*m.dims), level: make([]float32, n*m.features.N),
		price: make([]float32, n*m.features.N), held: make([]tally.Counts, n), at: make([]int32, len(m.app)),
	}
	for i := range s.at {
		s.at[i] = -1
	}
	return s
}

func (s *state) loadOf(k int32) []int32 { return energy.Row(s.load, k, s.dims) }

func (s *state) levelOf(k int32) []float32 { return energy.Row(s.level, k, s.features.N) }

func (s *state) priceOf(k int32) []float32 { return energy.Row(s.price, k, s.features.N) }

// add puts an instance on a machine. It must fit.
func (s *state) add(k, i int32) {
	a := s.app[i]
	load, need := s.loadOf(k), s.needOf(a)
	for d, x := range need {
		load[d] += x
	}
	level, price, w := s.levelOf(k), s.priceOf(k), s.features.For(s.shape[k])
	for f, x := range s.features.Of(a) {
		level[f] += x
		price[f] = 2 * w[f] * level[f]
	}
	s.held[k].Add(a, 1)
	s.on[k] = append(s.on[k], i)
	s.at[i] = k
}

// remove removes the instance at a position from a machine and returns it.
func (s *state) remove(k int32, position int) int32 {
	on := s.on[k]
	i := on[position]
	on[position] = on[len(on)-1]
	s.on[k] = on[:len(on)-1]
	a := s.app[i]
	load, need := s.loadOf(k), s.needOf(a)
	for d, x := range need {
		load[d] -= x
	}
	level, price, w := s.levelOf(k), s.priceOf(k), s.features.For(s.shape[k])
	for f, x := range s.features.Of(a) {
		level[f] -= x
		if len(s.on[k]) == 0 {
			level[f] = 0 // removes rounding errors
		}
		price[f] = 2 * w[f] * level[f]
	}
	s.held[k].Add(a, -1)
	s.at[i] = -1
	return i
}

// fits reports whether an instance of app a fits on a machine in addition to those on it.
func (s *state) fits(k, a int32) bool {
	load, capacity := s.loadOf(k), s.capacityOf(s.shape[k])
	need := s.needOf(a)
	capacity, load = capacity[:len(need)], load[:len(need)]
	for d, x := range need {
		if load[d]+x > capacity[d] {
			return false
		}
	}
	return s.allows(k, a, -1)
}

// fitsFor reports whether an instance of app a fits in place of one of b.
func (s *state) fitsFor(k, a, b int32) bool {
	load, capacity := s.loadOf(k), s.capacityOf(s.shape[k])
	need, given := s.needOf(a), s.needOf(b)
	capacity, load, given = capacity[:len(need)], load[:len(need)], given[:len(need)]
	for d, x := range need {
		if load[d]+x-given[d] > capacity[d] {
			return false
		}
	}
	return s.allows(k, a, b)
}

// allows reports whether the rules allow an instance of app a on a machine after an instance of app gone has left it;
// gone is -1 if none leaves.
func (s *state) allows(k, a, gone int32) bool {
	held := &s.held[k]
	self := held.Get(a) + 1
	if a == gone {
		self--
	}
	if self > s.limits.Self[a] {
		return false
	}
	for _, p := range s.limits.Partners[a] {
		n := held.Get(p.App)
		if p.App == gone {
			n--
		}
		if n > 0 && (n > p.Other || self > p.Self) {
			return false
		}
	}
	return true
}

// rise returns by how much an instance of app a on a machine raises the energy.
func (s *state) rise(k, a int32) float32 {
	x, price, w := s.features.Of(a), s.priceOf(k), s.features.For(s.shape[k])
	price, w = price[:len(x)], w[:len(x)]
	var even, odd float32 // two independent sums, so that the processor can add them in parallel
	i := 0
	for ; i+2 <= len(x); i += 2 {
		even += x[i] * (price[i] + w[i]*x[i])
		odd += x[i+1] * (price[i+1] + w[i+1]*x[i+1])
	}
	if i < len(x) {
		even += x[i] * (price[i] + w[i]*x[i])
	}
	return even + odd
}

// swap exchanges the numbers of two machines with all their contents.
func (s *state) swap(j, k int32) {
	if j == k {
		return
	}
	s.machine[j], s.machine[k] = s.machine[k], s.machine[j]
	s.shape[j], s.shape[k] = s.shape[k], s.shape[j]
	s.on[j], s.on[k] = s.on[k], s.on[j]
	s.held[j], s.held[k] = s.held[k], s.held[j]
	swapAll(s.loadOf(j), s.loadOf(k))
	swapAll(s.levelOf(j), s.levelOf(k))
	swapAll(s.priceOf(j), s.priceOf(k))
	for _, m := range []int32{j, k} {
		for _, i := range s.on[m] {
			s.at[i] = m
		}
	}
}

func swapAll[T any](x, y []T) {
	for i := range x {
		x[i], y[i] = y[i], x[i]
	}
}

// empty removes everything from a machine.
func (s *state) empty(k int32) {
	clear(s.loadOf(k))
	clear(s.levelOf(k))
	clear(s.priceOf(k))
	s.held[k] = tally.Counts{}
	s.on[k] = s.on[k][:0]
}

// snapshot returns the assignment with the problem's machine numbers.
func (s *state) snapshot() []int32 {
	a := make([]int32, len(s.at))
	for i, k := range s.at {
		a[i] = -1
		if k >= 0 {
			a[i] = s.machine[k]
		}
	}
	return a
}

// restore restores the state of a snapshot: machines in use first, unplaced instances in the pool.
func (s *state) restore(snapshot []int32) {
	used := make([]bool, len(s.machine))
	for _, m := range snapshot {
		if m >= 0 {
			used[m] = true
		}
	}
	for k := range s.machine {
		s.empty(int32(k)) //nolint:gosec // machines in memory
	}
	s.open = 0
	position := make([]int32, len(s.machine))
	for k := range s.machine {
		if used[s.machine[k]] {
			s.swap(int32(s.open), int32(k)) //nolint:gosec // machines in memory
			s.open++
		}
	}
	for k, m := range s.machine {
		position[m] = int32(k) //nolint:gosec // machines in memory
	}
	s.pool = s.pool[:0]
	for i, m := range snapshot {
		s.at[i] = -1
		if m >= 0 {
			s.add(position[m], int32(i)) //nolint:gosec // rows in memory
		} else {
			s.pool = append(s.pool, int32(i)) //nolint:gosec // rows in memory
		}
	}
}

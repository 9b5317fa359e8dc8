package pack

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// found is an assignment and its value.
type found struct {
	assignment []int32
	placed     int
	machines   int
}

func (f found) better(than found) bool {
	if f.placed != than.placed {
		return f.placed > than.placed
	}
	return f.machines < than.machines
}

type search struct {
	*state
	insert *inserter
	level  *leveler
	rng    *rand.Rand
	o      Options

	bound    int
	best     found
	hopeless []int32 // instances that do not fit any empty machine
	steps    int
	halted   bool
}

func newSearch(p *placement.Problem, o Options, strict bool) *search {
	st := newState(newModel(p, strict))
	rng := rand.New(rand.NewPCG(o.Seed, 0x7461636b)) //nolint:gosec // a search, not secret
	return &search{
		state: st, insert: newInserter(st, rng), level: newLeveler(st), rng: rng, o: o, bound: placement.LowerBound(p),
		best: found{placed: -1},
	}
}

// stopped reports whether the search has reached its limit.
func (s *search) stopped() bool {
	if !s.halted {
		s.halted = s.o.Steps > 0 && s.steps >= s.o.Steps || s.o.Stop != nil && s.steps%stride == 0 && s.o.Stop()
	}
	return s.halted
}

// stride is the number of steps between two calls of Stop.
const stride = 16

// aim is the share of machines above the lower bound for the first assignment. A smaller share leaves many small
// instances over; a larger share uses machines that must be emptied later.
const aim = 0.035

// run runs the search. It makes at most fills attempts to place instances left over from the first assignment.
func (s *search) run(fills int) {
	s.open = min(len(s.machine), max(s.bound, int(math.Ceil(float64(s.bound)*(1+aim)))))
	s.setAside()
	s.construct(s.stopped)
	s.openMore()
	s.record()
	if len(s.pool) > 0 {
		s.fill(fills)
	}
	if len(s.pool) == 0 {
		s.emptyMachines()
	}
}

// setAside removes the instances that do not fit any empty machine.
func (s *search) setAside() {
	shapes := slices.Compact(slices.Sorted(slices.Values(s.shape)))
	fits := func(a, shape int32) bool {
		capacity := s.capacityOf(shape)
		for d, x := range s.needOf(a) {
			if x > capacity[d] {
				return false
			}
		}
		return s.limits.Self[a] > 0
	}
	s.ordered = slices.DeleteFunc(s.ordered, func(a int32) bool {
		if slices.ContainsFunc(shapes, func(shape int32) bool { return fits(a, shape) }) {
			return false
		}
		s.hopeless = append(s.hopeless, s.instancesOf[a]...)
		return true
	})
}

// openMore places the instances of the pool, largest first, and opens new machines if necessary.
func (s *search) openMore() {
	waiting := s.pool
	s.pool = nil
	sort.SliceStable(waiting, func(x, y int) bool { return s.size[s.app[waiting[x]]] > s.size[s.app[waiting[y]]] })
	for _, i := range waiting {
		if !s.halted && s.insert.insert(i) || s.onOpened(i) {
			continue
		}
		if !s.halted || !s.insert.insert(i) {
			s.pool = append(s.pool, i)
		}
	}
}

// onOpened places an instance on one of the most recently opened machines, or on the first closed one that it fits.
func (s *search) onOpened(i int32) bool {
	const last = 8
	a := s.app[i]
	for k := s.open - 1; k >= max(0, s.open-last); k-- {
		if s.fits(int32(k), a) { //nolint:gosec // machines in memory
			s.add(int32(k), i) //nolint:gosec // machines in memory
			return true
		}
	}
	for k := s.open; k < len(s.machine); k++ {
		if s.fits(int32(k), a) { //nolint:gosec // machines in memory
			s.swap(int32(s.open), int32(k)) //nolint:gosec // machines in memory
			s.add(int32(s.open), i)         //nolint:gosec // machines in memory
			s.open++
			return true
		}
	}
	return false
}

// record stores the current assignment if it is the best so far.
func (s *search) record() {
	f := found{placed: len(s.app) - len(s.pool) - len(s.hopeless)}
	for k := range s.open {
		if len(s.on[k]) > 0 {
			f.machines++
		}
	}
	if f.better(s.best) {
		f.assignment = s.snapshot()
		s.best = f
		if s.o.Found != nil {
			s.o.Found(f.placed, f.machines)
		}
	}
}

// maxFailures is the number of consecutive failed attempts after which the search ends.
const maxFailures = 40

// fill tries to place the remaining instances when all machines are in use.
func (s *search) fill(times int) {
	for range times {
		s.insert.resetFails()
		if s.placePool() || s.stopped() {
			break
		}
		s.restoreBest()
	}
	s.record()
	s.restoreBest()
}

// restoreBest restores the best assignment.
func (s *search) restoreBest() {
	s.restore(s.best.assignment)
	s.pool = slices.DeleteFunc(s.pool, func(i int32) bool { return slices.Contains(s.hopeless, i) })
}

// emptyMachines empties machines, several at once as long as that works, until the limit or too many failures.
func (s *search) emptyMachines() {
	failed := 0
	many := max(1, (s.open-s.bound)/3)
	for s.open > s.bound && failed < maxFailures && !s.stopped() {
		many = max(1, min(many, (s.open-s.bound+2)/3))
		s.close(many)
		s.insert.resetFails()
		if s.placePool() {
			s.record()
			failed = 0
			continue
		}
		if many == 1 {
			failed++
		}
		many = max(1, many/2)
		// The few remaining instances may need fewer machines than were emptied.
		if s.openMore(); len(s.pool) == 0 && s.open < s.best.machines {
			s.record()
			failed = 0
			continue
		}
		s.restoreBest()
	}
}

// close takes machines out of use. For each it draws a few at random and takes the one that holds least.
func (s *search) close(many int) {
	const among = 8
	for range many {
		least, size := int32(-1), float32(0)
		for range among {
			k := s.insert.random()
			if h := s.holds(k); least < 0 || h < size {
				least, size = k, h
			}
		}
		s.pool = append(s.pool, s.on[least]...)
		for _, i := range s.on[least] {
			s.at[i] = -1
		}
		s.empty(least)
		s.open--
		s.swap(least, int32(s.open)) //nolint:gosec // machines in memory
	}
}

func (s *search) holds(k int32) float32 {
	size := float32(0)
	for _, i := range s.on[k] {
		size += s.size[s.app[i]]
	}
	return size
}

// For each step: the number of machines on which an ejection is considered, and of pairs of machines that are
// levelled.
const (
	looks  = 50
	levels = 3
)

// placePool places instances of the pool until it is empty (true) or there was no progress for too long (false).
func (s *search) placePool() bool {
	least, since := len(s.pool), 0
	patience := 2000 + 4*len(s.pool)
	for len(s.pool) > 0 {
		if s.steps++; s.stopped() || since > patience {
			return false
		}
		s.step()
		since++
		if len(s.pool) < least {
			least, since = len(s.pool), 0
			if s.best.placed < len(s.app)-len(s.hopeless) {
				s.record()
			}
		}
	}
	return true
}

// step tries to place one instance of the pool.
func (s *search) step() {
	at := s.rng.IntN(len(s.pool))
	i := s.pool[at]
	s.pool[at] = s.pool[len(s.pool)-1]
	s.pool = s.pool[:len(s.pool)-1]
	if !s.insert.insert(i) {
		s.insert.fails[i]++
		if s.open == 0 || !s.insert.eject(i, looks, s.insert.cost(i)) {
			s.pool = append(s.pool, i)
		}
	}
	for range min(levels, s.open-1) {
		if j, k := s.insert.random(), s.insert.random(); j != k {
			s.level.level(j, k)
		}
	}
}

func (s *search) result(exact bool) *Result {
	return &Result{
		Assignment: s.best.assignment, Placed: s.best.placed, Machines: s.best.machines, Bound: s.bound, Steps: s.steps,
		Exact: exact,
	}
}

package shared

import (
	"math"
	"math/rand/v2"
)

// unset is the instance of a task that has none yet.
const unset = -1

// searcher improves a schedule by ruin and recreate (Schrimpf et al., Journal of Computational Physics 159, 2000):
// it takes tasks off their instances, and gives each the place where it costs least.
type searcher struct {
	*builder
	random *rand.Rand
	// planned[i] is the time for which instance i is rented for the tasks that stay on it, by the schedule that is
	// being changed.
	planned []window
	count   []int     // instances of each kind
	late    []float64 // the latest end of each task in the schedule that is changed, without regard to resources
	cache   []arrivals
	cached  []bool
	paid    []float64 // by place, the cost of moves of the task in choose; negative if not known
	blink   float64   // the share of places that choose skips at random
	pool    []int32   // the kinds of which new instances may be opened
	tried   []int32   // those of them that recreate tries
	enough  float64   // the score with which the search ends
	fastest bool      // choose takes the place with the earliest end, not the cheapest
	credits [moves]credit
	local   local
}

type window struct{ first, last float64 }

// recreate builds a schedule of the fleet in an order with parents before children. Tasks without an instance get one.
// It returns false if a task has no place or ends too late.
func (s *searcher) recreate(out *schedule, order []int32) bool {
	out.start, out.end = resized(out.start, s.n), resized(out.end, s.n)
	s.open(&out.fleet)
	s.countKinds(&out.fleet)
	for _, t := range order {
		if out.on[t] == unset && !s.choose(out, t) {
			return false
		}
		i := out.on[t]
		s.put(&out.fleet, t, i, s.arrival(&s.forwards, &out.fleet, t, i, out.end), out.start, out.end)
		if !s.relaxed && out.end[t]+s.tail[t] > s.deadline*(1+1e-12) {
			return false
		}
	}
	return true
}

func (s *searcher) countKinds(f *fleet) {
	s.count = resized(s.count, len(s.kinds))
	clear(s.count)
	for _, k := range f.kinds {
		s.count[k]++
	}
}

// offer is a possible place for a task: an instance, or a new instance of a kind.
type offer struct {
	instance int32 // or unset: a new one
	kind     int32
	usd      float64 // additional cost
	end      float64
}

// choose gives task t the instance with the least additional cost, or the earliest end.
func (s *searcher) choose(out *schedule, t int32) bool {
	f := &out.fleet
	best := offer{kind: unset}
	s.forget()
	n := len(f.kinds)
	step, at := 1, 0
	const many = 48
	if n > many {
		step, at = n/many, s.random.IntN(n)
	}
	for range min(n, (n+step-1)/step) {
		if at >= n {
			at -= n
		}
		s.consider(out, t, int32(at), &best) // #nosec G115 -- at most MaxTasks
		at += step
	}
	if n > many {
		for _, a := range s.parents.of(t) {
			s.consider(out, t, f.on[a.task], &best)
		}
	}
	for _, k := range s.tried {
		s.considerNew(out, t, k, &best)
	}
	if best.kind == unset {
		return false
	}
	if best.instance == unset {
		best.instance = s.add(f, best.kind)
	}
	f.on[t] = best.instance
	return true
}

// add opens an instance.
func (s *searcher) add(f *fleet, k int32) int32 {
	i := len(f.kinds)
	f.kinds = append(f.kinds, k)
	if len(s.slots) <= i {
		s.slots = append(s.slots, slot{})
	}
	s.reset(i, k)
	s.planned = append(s.planned[:i], window{math.Inf(1), math.Inf(-1)})
	s.count[k]++
	return int32(i) // #nosec G115 -- at most MaxTasks
}

func (s *searcher) arrivals(out *schedule, t, k int32) *arrivals {
	place := s.kinds[k].place
	if !s.cached[place] {
		s.cache[place], s.cached[place] = s.remote(&out.fleet, t, int(k), out.end), true
	}
	return &s.cache[place]
}

func (s *searcher) consider(out *schedule, t, i int32, best *offer) {
	k := out.kinds[i]
	if !s.runs(int(k), int(t)) || s.random.Float64() < s.blink {
		return
	}
	kind, x, w := &s.kinds[k], &s.slots[i], &s.planned[i]
	hours := s.hours[k][t]
	from := max(s.arrivals(out, t, k).on(i, x.ready), x.full)
	if from+hours > s.late[t] {
		return
	}
	at, _, left := x.line.fit(from, hours, s.holds[k][s.class[t]], kind.has, anywhere)
	s.steps += 1 + (anywhere-int64(left))/scanned
	end := at + hours
	if end > s.late[t] {
		return
	}
	first, last := min(x.first, w.first), max(x.last, w.last)
	usd := kind.price * kind.billed(max(last, end)-min(first, at)+kind.boot)
	if last >= first {
		usd -= kind.price * kind.billed(last-first+kind.boot)
	} else if w.first > w.last { // opened by the caller, who decided to pay the boot
		usd = kind.price * hours
	}
	s.keep(best, offer{i, k, usd + s.movesOf(out, t, i, k), end})
}

func (s *searcher) considerNew(out *schedule, t, k int32, best *offer) {
	kind := &s.kinds[k]
	if !s.runs(int(k), int(t)) || s.count[k] >= kind.most || len(out.kinds) >= s.most {
		return
	}
	hours := s.hours[k][t]
	end := s.arrivals(out, t, k).on(unset-1, kind.boot) + hours
	if end > s.late[t] {
		return
	}
	usd := kind.price * kind.billed(hours+kind.boot)
	s.keep(best, offer{unset, k, usd + s.movesOf(out, t, unset, k), end})
}

// keep replaces the best offer by a better one.
func (s *searcher) keep(best *offer, o offer) {
	better := best.kind == unset
	switch {
	case better:
	case s.fastest:
		better = o.end < best.end || o.end == best.end && o.usd < best.usd
	default:
		better = o.usd < best.usd || o.usd == best.usd && o.end < best.end
	}
	if better {
		*best = o
	}
}

// movesOf is the cost of moving data to and from task t on instance i of kind k.
func (s *searcher) movesOf(out *schedule, t, i, k int32) float64 {
	if !s.egress {
		return 0
	}
	place := s.kinds[k].place
	within := s.moveUSD[place][place]
	if s.paid[place] >= 0 && within == 0 {
		return s.paid[place]
	}
	usd := 0.0
	for _, a := range s.parents.of(t) {
		if o := out.on[a.task]; o != i {
			usd += a.gib * s.moveUSD[s.kinds[out.kinds[o]].place][place]
		}
	}
	for _, a := range s.children.of(t) {
		if o := out.on[a.task]; o != i && o != unset {
			usd += a.gib * s.moveUSD[place][s.kinds[out.kinds[o]].place]
		}
	}
	s.steps += int64((len(s.parents.of(t)) + len(s.children.of(t))) / 8)
	s.paid[place] = usd
	return usd
}

// forget empties the caches of arrivals and moves, which are for one task.
func (s *searcher) forget() {
	n := len(s.moveHours)
	s.cache, s.cached, s.paid = resized(s.cache, n), resized(s.cached, n), resized(s.paid, n)
	clear(s.cached)
	for p := range s.paid {
		s.paid[p] = -1
	}
}

// setLate computes the latest ends of the tasks of a schedule: the instances are fixed, but not their loads.
func (s *searcher) setLate(c *schedule) {
	s.late = resized(s.late, s.n)
	for t := s.n - 1; t >= 0; t-- {
		s.late[t] = s.deadline
		if s.relaxed {
			s.late[t] = math.Inf(1)
		}
		if math.IsInf(s.late[t], 1) {
			continue
		}
		i := c.on[t]
		from := s.kinds[c.kinds[i]].place
		for _, a := range s.children.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			k := c.kinds[c.on[a.task]]
			latest := s.late[a.task] - s.hours[k][a.task]
			if c.on[a.task] != i {
				latest -= a.gib * s.moveHours[from][s.kinds[k].place]
			}
			s.late[t] = min(s.late[t], latest)
		}
		s.late[t] *= 1 + 1e-12
	}
}

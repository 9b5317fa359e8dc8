package optimizer

import "slices"

// schedule is a plan with its exact times: when each task starts and how long
// it takes from each task's finish to the end.
type schedule struct {
	inst         *instance
	plan         plan
	start, after []float64 // by task
}

func newSchedule(inst *instance, p plan) *schedule {
	s := &schedule{inst: inst, plan: p, start: make([]float64, len(p)), after: make([]float64, len(p))}
	s.computeStarts()
	s.computeAfters()
	return s
}

func (s *schedule) computeStarts() {
	for _, t := range s.inst.topo {
		s.start[t] = s.startAt(t, s.inst.placeOf(s.plan, t))
	}
}

func (s *schedule) computeAfters() {
	for _, t := range slices.Backward(s.inst.topo) {
		s.after[t] = s.afterAt(t, s.inst.placeOf(s.plan, t))
	}
}

func (s *schedule) hours(t int32) float64 { return s.inst.opts[s.inst.first[t]+s.plan[t]].hours }

// startAt is when t would start at place p, its producers as they are.
func (s *schedule) startAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range s.inst.in.of(t) {
		e := &s.inst.edges[i]
		arrive := s.start[e.from] + s.hours(e.from) + e.maxGiB*s.inst.hrs[s.inst.placeOf(s.plan, e.from)*s.inst.nPlace+p]
		at = max(at, arrive)
	}
	return at
}

// afterAt is the time from t's finish to the end were t at place p, its
// consumers as they are.
func (s *schedule) afterAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range s.inst.out.of(t) {
		e := &s.inst.edges[i]
		rest := e.maxGiB*s.inst.hrs[p*s.inst.nPlace+s.inst.placeOf(s.plan, e.to)] + s.hours(e.to) + s.after[e.to]
		at = max(at, rest)
	}
	return at
}

// makespan is the plan's makespan, from the starts.
func (s *schedule) makespan() float64 {
	last := 0.0
	for t := range s.plan {
		last = max(last, s.start[t]+s.hours(int32(t))) // #nosec G115 -- at most MaxTasks
	}
	return last
}

// shorten moves one task at a time to where the longest path through it is
// shortest, in sweeps forward and backward, until a pair of sweeps does not
// shorten the makespan. No move lengthens it, since paths that avoid the task
// stay as they are.
func (s *schedule) shorten(m *meter) {
	for before := s.makespan(); !m.stopped; {
		for _, t := range s.inst.topo {
			s.start[t] = s.fastest(t, m)
		}
		for _, t := range slices.Backward(s.inst.topo) {
			s.fastest(t, m)
			s.after[t] = s.afterAt(t, s.inst.placeOf(s.plan, t))
		}
		s.computeStarts()
		now := s.makespan()
		if now >= before-precision*before {
			return
		}
		before = now
	}
}

// fastest moves t to the option with the shortest longest path through it and
// returns t's start there. A tie leaves it where it is.
func (s *schedule) fastest(t int32, m *meter) float64 {
	opts := s.inst.options(t)
	best := s.plan[t]
	bestStart := s.startAt(t, int(opts[best].place))
	bestVia := bestStart + opts[best].hours + s.afterAt(t, int(opts[best].place))
	place, start, after := int32(-1), 0.0, 0.0
	for k := range opts {
		if opts[k].place != place {
			place = opts[k].place
			start, after = s.startAt(t, int(place)), s.afterAt(t, int(place))
		}
		if via := start + opts[k].hours + after; via < bestVia {
			best, bestStart, bestVia = int32(k), start, via // #nosec G115 -- at most MaxCandidates
		}
	}
	m.spend(len(opts) * (1 + len(s.inst.in.of(t)) + len(s.inst.out.of(t))))
	s.plan[t] = best
	return bestStart
}

// cheapen moves one task at a time to the cheapest option, transfers included,
// with which no path through it is longer than limit; where there is none, to
// the one with the shortest longest path. A plan within the limit stays within
// it and never gets dearer. No move makes another task later than limit, or
// later still, so it comes to an end.
func (s *schedule) cheapen(limit float64, m *meter) {
	cost := make([]float64, 0, 64)
	for changed := true; changed && !m.stopped; {
		changed = false
		for _, t := range s.inst.topo {
			var moved bool
			moved, s.start[t], cost = s.cheapest(t, limit, cost, m)
			changed = changed || moved
		}
		for _, t := range slices.Backward(s.inst.topo) {
			var moved bool
			moved, _, cost = s.cheapest(t, limit, cost, m)
			changed = changed || moved
			s.after[t] = s.afterAt(t, s.inst.placeOf(s.plan, t))
		}
		s.computeStarts()
	}
}

// cheapest moves t for cheapen and returns whether it did, and t's start where
// it is now. Differences that rounding can explain do not count. cost is
// scratch.
func (s *schedule) cheapest(t int32, limit float64, cost []float64, m *meter) (moved bool, start float64, scratch []float64) {
	const rounding = 1e-12
	limit += rounding * limit
	opts := s.inst.options(t)
	cost = grow(cost, len(opts))
	s.inst.localCosts(cost, s.plan, t)
	best := s.plan[t]
	start = s.startAt(t, int(opts[best].place))
	bestLate := max(0, start+opts[best].hours+s.afterAt(t, int(opts[best].place))-limit)
	place, begin, after := int32(-1), 0.0, 0.0
	for k := range opts {
		cheaper := cost[k] < cost[best]-rounding*cost[best]
		if bestLate == 0 && !cheaper {
			continue
		}
		if opts[k].place != place {
			place = opts[k].place
			begin, after = s.startAt(t, int(place)), s.afterAt(t, int(place))
		}
		late := max(0, begin+opts[k].hours+after-limit)
		if late < bestLate-rounding*limit || late == 0 && (cheaper || bestLate > 0) {
			best, start, bestLate = int32(k), begin, late // #nosec G115 -- at most MaxCandidates
			moved = true
		}
	}
	m.spend(len(opts) * (1 + len(s.inst.in.of(t)) + len(s.inst.out.of(t))))
	s.plan[t] = best
	return moved, start, cost
}

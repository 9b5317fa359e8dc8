package optimizer

import (
	"cmp"
	"math"
	"slices"
)

// A deadline D is kept only by plans whose times, in any unit u and rounded
// down, keep the deadline ⌊D/u⌋. So the cheapest plan under rounded times is a
// bound, and often a far better one than a mixture of plans gives: where a spot
// run takes six tenths of the deadline, two in a row cannot be in time, but a
// mixture runs each on spot for five sixths. Rounded to one, two, … steps to
// the deadline each bars what the others let pass (the rounding of Chvátal and
// Gomory; for bin packing the dual feasible functions of Lueker, 1983). Under
// rounded times many options are alike, and the search is that of any other
// deadline (bounded.go).

// mostSteps is the finest rounding: so many steps to the deadline.
const mostSteps = 12

// rounding is a search under rounded times.
type rounding struct {
	*boundedSearch
	perHour float64   // units
	fine    *instance // of which its instance is the rounding
}

// rounded is the instance with times in such a unit that the deadline is just
// below steps + 1 of them, rounded down, and transfers that take no time. Of the
// options of one task those are left that may be the cheapest for their time.
func rounded(inst *instance, deadline float64, steps int) *instance {
	r := *inst
	r.edges = slices.Clone(inst.edges)
	for e := range r.edges {
		r.edges[e].maxGiB = 0
	}
	perHour := unitsPerHour(deadline, steps)
	dom := newDomination(inst)
	r.opts = make([]option, 0, len(inst.opts)/8)
	r.first = make([]int32, len(inst.first))
	for t := range inst.order {
		r.opts = append(r.opts, roundOptions(dom, inst, int32(t), perHour, steps)...) // #nosec G115 -- at most MaxTasks
		r.first[t+1] = int32(len(r.opts))                                             // #nosec G115 -- at most MaxCandidates
	}
	r.span()
	return &r
}

// unitsPerHour has the deadline be just less than steps + 1 units.
func unitsPerHour(deadline float64, steps int) float64 {
	return float64(steps+1) / deadline * (1 - 1e-9)
}

// roundOptions are the options of task t that may be the cheapest for their
// rounded time, wherever its neighbours are, by place and within a place from
// the cheapest and slowest on.
func roundOptions(dom *domination, inst *instance, t int32, perHour float64, steps int) []option {
	opts := slices.Clone(inst.options(t))
	cheapest := make([]int, steps+1) // of at most so much time
	for h := range cheapest {
		cheapest[h] = -1
	}
	for k := range opts {
		opts[k].hours = math.Floor(opts[k].hours * perHour)
		for h := int(min(opts[k].hours, float64(steps+1))); h <= steps; h++ {
			if c := cheapest[h]; c < 0 || opts[k].usd < opts[c].usd {
				cheapest[h] = k
			}
		}
	}
	sent, received := moved(inst, t)
	kept := opts[:0:0]
	for k := range opts {
		if opts[k].hours > float64(steps) {
			continue
		}
		c := cheapest[int(opts[k].hours)]
		if c != k {
			out, in := dom.rows(opts[c].place)
			if p := opts[k].place; opts[c].usd+sent*out[p]+received*in[p] <= opts[k].usd {
				continue
			}
		}
		if n := len(kept); n > 0 && kept[n-1].place == opts[k].place && kept[n-1].hours <= opts[k].hours {
			continue
		}
		kept = append(kept, opts[k])
	}
	return kept
}

// coarse is a plan of the fine instance under rounded times, or one no dearer.
func (r *rounding) coarse(p plan) plan {
	out := make(plan, len(p))
	for t := range p {
		i := int32(t) // #nosec G115 -- at most MaxTasks
		opt := &r.fine.opts[r.fine.first[t]+p[t]]
		hours := math.Floor(opt.hours * r.perHour)
		best := -1
		opts := r.inst.options(i)
		for k := range opts {
			if opts[k].hours > hours {
				continue
			}
			if opts[k].place == opt.place && opts[k].usd <= opt.usd {
				best = k
				break
			}
			if best < 0 || opts[k].usd < opts[best].usd {
				best = k
			}
		}
		if best < 0 {
			return nil // too slow for the deadline
		}
		out[t] = int32(best) // #nosec G115 -- at most MaxCandidates
	}
	return out
}

// exact is a plan under rounded times as one of the fine instance.
func (r *rounding) exact(p plan) plan {
	out := make(plan, len(p))
	for t := range p {
		i := int32(t) // #nosec G115 -- at most MaxTasks
		opt := &r.inst.opts[r.inst.first[t]+p[t]]
		out[t] = int32(slices.IndexFunc(r.fine.options(i), func(o option) bool { // #nosec G115 -- at most MaxCandidates
			return o.cand == opt.cand
		}))
	}
	return out
}

// newRounding starts a search for the cheapest plan within the deadline under
// rounded times, from the given plans, of which fast keeps the deadline; nil
// where rounding bars nothing.
func newRounding(s *boundedSearch, deadline float64, steps int, fast plan, more ...plan) *rounding {
	r := &rounding{fine: s.inst, perHour: unitsPerHour(deadline, steps)}
	r.boundedSearch = &boundedSearch{inst: rounded(s.inst, deadline, steps), meter: s.meter.part(0.1), thresholds: s.thresholds, limit: float64(steps), coarse: true, ceiling: s.ceiling, offered: s.ceiling}
	c := newCostSolver(r.inst, s.thresholds, r.meter)
	lax, lower, _ := c.solve(nil)
	if r.inst.makespan(lax) <= float64(steps) {
		s.meter.join(r.meter)
		return nil
	}
	var from []plan
	for _, p := range append(more, fast) {
		if p = r.coarse(p); p != nil {
			from = append(from, p)
		}
	}
	if len(from) == 0 {
		s.meter.join(r.meter)
		return nil
	}
	r.start(lax, from[len(from)-1], from, lower)
	s.meter.join(r.meter)
	r.meter = s.meter
	return r
}

// round raises the bound by searches under rounded times, and offers the plans
// that they find. It takes turns with the search itself: as much work for each.
func (s *boundedSearch) round() {
	done := s.meter.work - s.begun
	if s.coarse || s.byTime || done < s.thresholds.roundAfter || 2*s.roundWork > done || s.meter.stopped {
		return
	}
	defer func() { s.roundWork += s.meter.work - s.begun - done }()
	if s.steps < mostSteps {
		s.coarsen()
	} else if len(s.roundings) > 0 {
		s.refine()
	}
	if s.lower >= s.cut() {
		s.lower, s.open = s.upper, nil
	}
}

// large tells whether the search is going to be so long that rounded times are
// better tried first; where a single look at the network is long already, all
// of them together would be too.
func (s *boundedSearch) large() bool {
	if s.coarse {
		return false
	}
	entries := 0
	for i := range s.inst.edges {
		e := &s.inst.edges[i]
		entries += len(s.inst.spansOf(e.from)) * len(s.inst.spansOf(e.to))
	}
	return entries*rootRounds().most > int(s.thresholds.roundAfter) && entries < s.thresholds.roundEntries
}

// coarsen starts the search under the next rounding.
func (s *boundedSearch) coarsen() {
	s.steps++
	if r := newRounding(s, s.timeCut(), s.steps, s.fast, s.best); r != nil {
		s.roundings = append(s.roundings, r)
		s.learn(r)
	}
}

// refine takes a step in the search under the rounding that bars most.
func (s *boundedSearch) refine() {
	best := slices.MaxFunc(s.roundings, func(a, b *rounding) int { return cmp.Compare(a.lower, b.lower) })
	more := best.step()
	best.lower = min(best.upper, max(best.lower, best.least(best.cut())))
	s.learn(best)
	if !more {
		s.roundings = slices.DeleteFunc(s.roundings, func(r *rounding) bool { return r == best })
	}
}

// learn takes over what a search under rounded times has found.
func (s *boundedSearch) learn(r *rounding) {
	s.lower = min(s.upper, max(s.lower, r.lower))
	if r.best != nil && r.upper != r.offered {
		r.offered = r.upper
		s.offer(r.exact(r.best))
	}
}

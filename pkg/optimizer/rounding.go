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

// roundAfter is the work of a search that is worth doing before its times are
// rounded: most searches are over by then.
const roundAfter = 20_000_000

// rounding is a search under rounded times.
type rounding struct {
	*boundedSearch
	fine *instance // of which its instance is the rounding
}

// rounded is the instance with times in such a unit that the deadline is just
// below steps + 1 of them, rounded down, and transfers that take no time. Of
// options of one task at one place that take the same, the cheapest is left.
func (inst *instance) rounded(deadline float64, steps int) *instance {
	perHour := float64(steps+1) / deadline * (1 - 1e-9)
	r := *inst
	r.edges = slices.Clone(inst.edges)
	for e := range r.edges {
		r.edges[e].maxGiB = 0
	}
	r.opts = make([]option, 0, len(inst.opts))
	r.first = make([]int32, len(inst.first))
	for t := range inst.order {
		for _, sp := range inst.spansOf(int32(t)) { // #nosec G115 -- at most MaxTasks
			last := inf
			for o := sp.lo; o < sp.hi; o++ {
				opt := inst.opts[o]
				if opt.hours = math.Floor(opt.hours * perHour); opt.hours < last {
					last = opt.hours
					r.opts = append(r.opts, opt)
				}
			}
		}
		r.first[t+1] = int32(len(r.opts)) // #nosec G115 -- at most MaxCandidates
	}
	r.span()
	return &r
}

// coarse is a plan of the fine instance under rounded times.
func (r *rounding) coarse(p plan, perHour float64) plan {
	out := make(plan, len(p))
	for t := range p {
		i := int32(t) // #nosec G115 -- at most MaxTasks
		opt := &r.fine.opts[r.fine.first[t]+p[t]]
		hours := math.Floor(opt.hours * perHour)
		out[t] = int32(slices.IndexFunc(r.inst.options(i), func(o option) bool { // #nosec G115 -- at most MaxCandidates
			return o.place == opt.place && o.hours == hours
		}))
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
// rounded times, from the given plans, of which known keep the deadline; nil
// where rounding bars nothing.
func newRounding(s *boundedSearch, deadline float64, steps int, cheap, fast plan, known ...plan) *rounding {
	r := &rounding{fine: s.inst}
	r.boundedSearch = &boundedSearch{inst: s.inst.rounded(deadline, steps), meter: s.meter.part(0.1), thresholds: s.thresholds, limit: float64(steps), coarse: true}
	perHour := float64(steps+1) / deadline * (1 - 1e-9)
	lax := r.coarse(cheap, perHour)
	if r.inst.makespan(lax) <= float64(steps) {
		return nil
	}
	from := []plan{r.coarse(fast, perHour)}
	for _, p := range known {
		from = append(from, r.coarse(p, perHour))
	}
	r.start(lax, from[0], from, 0)
	s.meter.join(r.meter)
	r.meter = s.meter
	return r
}

// round raises the bound by searches under rounded times, and offers the plans
// that they find. It takes turns with the search itself: as much work for each.
func (s *boundedSearch) round() {
	done := s.meter.work - s.begun
	if s.coarse || s.byTime || done < roundAfter || 2*s.roundWork > done || s.meter.stopped {
		return
	}
	defer func() { s.roundWork += s.meter.work - s.begun - done }()
	if s.steps < mostSteps {
		s.steps++
		if r := newRounding(s, s.timeCut(), s.steps, s.cheap, s.fast, s.best); r != nil {
			s.roundings = append(s.roundings, r)
			s.learn(r)
		}
	} else if len(s.roundings) > 0 {
		best := slices.MaxFunc(s.roundings, func(a, b *rounding) int { return cmp.Compare(a.lower, b.lower) })
		more := best.step()
		best.lower = min(best.upper, max(best.lower, best.least(best.cut())))
		s.learn(best)
		if !more {
			s.roundings = slices.DeleteFunc(s.roundings, func(r *rounding) bool { return r == best })
		}
	}
	if s.lower >= s.cut() {
		s.lower, s.open = s.upper, nil
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

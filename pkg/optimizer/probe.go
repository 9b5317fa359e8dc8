package optimizer

// A makespan within a budget can be bounded through the other bounded form: if
// no plan that keeps the deadline T keeps the budget as well, no plan within
// the budget is faster than T. That is worth the detour, since cost within a
// deadline has the better bounds: rounded times (rounding.go), and windows that
// a tighter deadline narrows. So deadlines are probed by bisection, each for so
// much work; what a probe leaves open is left to later ones that may take more.

// prober bisects on the deadline for a boundedSearch by time.
type prober struct {
	work   int64   // done by all probes
	effort int64   // that a probe may take
	open   float64 // the least cut whose probe was not decided, +Inf for none
	failed bool    // there is nothing to probe with
}

const (
	// probePart is the part of all work that probes may take before a long search.
	probePart = 0.4
	// probeEffort is the work of a first probe, as a part of that after which
	// times are rounded: enough for the roundings of a hundred tasks.
	probeEffort = 1
	// probeApart is how near to what is proven, relative to what is left, a cut
	// that was not decided may be before probes take more work.
	probeApart = 0.05
)

// probeFirst probes where the search itself is going to be long, with a part of
// the work that it may take, until what is open is a small part.
func (s *boundedSearch) probeFirst() {
	p, whole := &s.probes, s.meter
	p.begin(s.thresholds)
	s.meter = whole.part(probePart)
	for begun := p.effort; p.effort == begun && !p.failed && s.lower < s.cut() && s.meter.spend(0); {
		s.probeNext()
	}
	whole.join(s.meter)
	s.meter = whole
}

// probe takes turns with the search itself, as much work for each.
func (s *boundedSearch) probe() {
	p := &s.probes
	if !s.byTime || p.failed || p.work > s.meter.work-s.begun-p.work || s.meter.stopped {
		return
	}
	p.begin(s.thresholds)
	s.probeNext()
}

func (p *prober) begin(th thresholds) {
	if p.effort == 0 {
		p.effort, p.open = max(int64(probeEffort*float64(th.roundAfter)), 1), inf
	}
}

// probeNext probes half way between what is proven and what is not decided.
func (s *boundedSearch) probeNext() {
	p, begun := &s.probes, s.meter.work
	lower := s.lower
	if len(s.open) > 0 {
		lower = min(s.upper, max(lower, s.open[0].bound))
	}
	if p.open > s.cut() {
		p.open = inf
	}
	if p.open-lower <= probeApart*(s.upper-lower) {
		p.effort, p.open = 4*p.effort, inf
	}
	cut := (lower + min(s.upper, p.open)) / 2
	if p.open == inf && s.upper-lower <= 1e-3*s.upper {
		cut = s.cut() // all that is left
	}
	s.probeAt(cut)
	p.work += s.meter.work - begun
	if s.lower >= s.cut() {
		s.lower, s.open = s.upper, nil
	}
}

// probeAt looks for a plan within the budget whose makespan is below cut, and
// keeps it, or proves that there is none.
func (s *boundedSearch) probeAt(cut float64) {
	sub := &boundedSearch{
		inst: s.inst, meter: s.meter.part(1), thresholds: s.thresholds, limit: cut, within: cut, ceiling: beyond(s.limit),
	}
	if most := s.meter.work + s.probes.effort; sub.meter.limit == 0 || most < sub.meter.limit {
		sub.meter.limit = most
	}
	sub.meter.gap, sub.meter.lookAt = 0, 0
	sub.start(s.cheap, s.fast, []plan{s.best}, s.floor)
	sub.begun = sub.meter.work
	for sub.upper == sub.ceiling && sub.step() {
		sub.round()
	}
	s.meter.join(sub.meter)
	switch {
	case sub.stuck:
		s.probes.failed = true
	case sub.upper < sub.ceiling:
		s.keep(sub.best)
		s.offer(sub.best)
	case max(sub.lower, sub.least(sub.cut())) >= sub.cut():
		s.lower = max(s.lower, cut)
	default:
		s.probes.open = min(s.probes.open, cut)
	}
}

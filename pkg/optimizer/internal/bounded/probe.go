package bounded

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A makespan within a budget can be bounded with the other bounded problem: if no plan that meets the deadline T is
// within the budget, then no plan within the budget is faster than T. The detour is worthwhile because cost within a
// deadline has better bounds: rounded times (rounding.go), and windows that a tighter deadline narrows. So deadlines
// are probed by bisection with a limited amount of work each. Undecided deadlines are left to later probes with more
// work.

// Prober bisects the deadline for a Search by time.
type Prober struct {
	work   int64   // work done by all probes
	Effort int64   // maximum work of a probe
	Open   float64 // lowest cut whose probe was undecided, +Inf for none
	failed bool    // probing is not possible
}

const (
	// probePart is the share of all work that probes may use before a long search.
	probePart = 0.4
	// probeEffort is the work of a first probe, as a multiple of the work after which times are rounded: enough for
	// the roundings of a hundred tasks.
	probeEffort = 1
	// probeApart is the minimum distance of an undecided cut from the proven bound, as a share of the remaining gap.
	// Below it, probes use more work.
	probeApart = 0.05
)

// probeFirst probes before a search that will be long, with a share of its work, until the open part of the gap is
// small.
func (s *Search) probeFirst() {
	p, whole := &s.Probes, s.Meter
	p.begin(s.Thresholds)
	s.Meter = whole.Part(probePart)
	for begun := p.Effort; p.Effort == begun && !p.failed && s.Lower < s.cut() && s.Meter.Spend(0); {
		s.probeNext()
	}
	whole.Join(s.Meter)
	s.Meter = whole
}

// probe alternates with the search itself; both get the same amount of work.
func (s *Search) probe() {
	p := &s.Probes
	if !s.ByTime || p.failed || p.work > s.Meter.Work-s.begun-p.work || s.Meter.Stopped {
		return
	}
	p.begin(s.Thresholds)
	s.probeNext()
}

func (p *Prober) begin(th search.Thresholds) {
	if p.Effort == 0 {
		p.Effort, p.Open = max(int64(probeEffort*float64(th.RoundAfter)), 1), search.Inf
	}
}

// probeNext probes a deadline half way between the proven bound and the lowest undecided cut.
func (s *Search) probeNext() {
	p, begun := &s.Probes, s.Meter.Work
	lower := s.Lower
	if len(s.Open) > 0 {
		lower = min(s.Upper, max(lower, s.Open[0].Bound))
	}
	if p.Open > s.cut() {
		p.Open = search.Inf
	}
	if p.Open-lower <= probeApart*(s.Upper-lower) {
		p.Effort, p.Open = 4*p.Effort, search.Inf
	}
	cut := (lower + min(s.Upper, p.Open)) / 2
	if p.Open == search.Inf && s.Upper-lower <= 1e-3*s.Upper {
		cut = s.cut() // the whole remaining gap
	}
	s.ProbeAt(cut)
	p.work += s.Meter.Work - begun
	if s.Lower >= s.cut() {
		s.Lower, s.Open = s.Upper, nil
	}
}

// ProbeAt looks for a plan within the budget with a makespan below cut. It stores the plan, or proves that there is
// none.
func (s *Search) ProbeAt(cut float64) {
	sub := &Search{
		Inst: s.Inst, Meter: s.Meter.Part(1), Thresholds: s.Thresholds,
		Limit: cut, within: cut, ceiling: search.Beyond(s.Limit),
	}
	if most := s.Meter.Work + s.Probes.Effort; sub.Meter.Limit == 0 || most < sub.Meter.Limit {
		sub.Meter.Limit = most
	}
	sub.Meter.Gap, sub.Meter.NextCheck = 0, 0
	sub.Start(s.Cheap, s.Fast, []problem.Plan{s.Best}, s.Floor)
	sub.begun = sub.Meter.Work
	for sub.Upper == sub.ceiling && sub.step() {
		sub.round()
	}
	s.Meter.Join(sub.Meter)
	switch {
	case sub.stuck:
		s.Probes.failed = true
	case sub.Upper < sub.ceiling:
		s.keep(sub.Best)
		s.offer(sub.Best)
	case max(sub.Lower, sub.Least(sub.cut())) >= sub.cut():
		s.Lower = max(s.Lower, cut)
	default:
		s.Probes.Open = min(s.Probes.Open, cut)
	}
}

// Package schedule improves plans one task at a time: to a shorter makespan, or to a lower cost within a time limit.
// Solve finds the plan of minimum makespan without a budget.
package schedule

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Schedule is a plan with its exact times: when each task starts (Start), and the time from its finish to the end of
// the plan (After).
type Schedule struct {
	Inst         *problem.Instance
	Plan         problem.Plan
	Start, After []float64 // by task
}

// New computes the times of plan p. The methods of the schedule change p.
func New(inst *problem.Instance, p problem.Plan) *Schedule {
	s := &Schedule{Inst: inst, Plan: p, Start: make([]float64, len(p)), After: make([]float64, len(p))}
	s.ComputeStarts()
	s.computeAfters()
	return s
}

// ComputeStarts computes all starts again.
func (s *Schedule) ComputeStarts() {
	for _, t := range s.Inst.Topo {
		s.Start[t] = s.startAt(t, s.Inst.PlaceOf(s.Plan, t))
	}
}

func (s *Schedule) computeAfters() {
	for _, t := range slices.Backward(s.Inst.Topo) {
		s.After[t] = s.AfterAt(t, s.Inst.PlaceOf(s.Plan, t))
	}
}

func (s *Schedule) hours(t int32) float64 { return s.Inst.Opts[s.Inst.First[t]+s.Plan[t]].Hours }

// startAt returns when t would start at place p, with its producers unchanged.
func (s *Schedule) startAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range s.Inst.In.Of(t) {
		e := &s.Inst.Edges[i]
		arrive := s.Start[e.From] + s.hours(e.From) +
			e.MaxGiB*s.Inst.Hrs[s.Inst.PlaceOf(s.Plan, e.From)*s.Inst.NPlace+p]
		at = max(at, arrive)
	}
	return at
}

// AfterAt returns the time from t's finish to the end of the plan if t were at place p, with its consumers unchanged.
func (s *Schedule) AfterAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range s.Inst.Out.Of(t) {
		e := &s.Inst.Edges[i]
		rest := e.MaxGiB*s.Inst.Hrs[p*s.Inst.NPlace+s.Inst.PlaceOf(s.Plan, e.To)] + s.hours(e.To) + s.After[e.To]
		at = max(at, rest)
	}
	return at
}

// Makespan returns the plan's makespan, from the starts.
func (s *Schedule) Makespan() float64 {
	last := 0.0
	for t := range s.Plan {
		last = max(last, s.Start[t]+s.hours(int32(t))) // #nosec G115 -- at most MaxTasks
	}
	return last
}

// Shorten moves one task at a time to the option with the shortest longest path through it, in forward and backward
// sweeps, until a pair of sweeps does not shorten the makespan. No move lengthens it, because paths that avoid the
// task do not change.
func (s *Schedule) Shorten(m *search.Meter) {
	for before := s.Makespan(); !m.Stopped; {
		for _, t := range s.Inst.Topo {
			s.Start[t] = s.fastest(t, m)
		}
		for _, t := range slices.Backward(s.Inst.Topo) {
			s.fastest(t, m)
			s.After[t] = s.AfterAt(t, s.Inst.PlaceOf(s.Plan, t))
		}
		s.ComputeStarts()
		now := s.Makespan()
		if now >= before-search.Precision*before {
			return
		}
		before = now
	}
}

// fastest moves t to the option with the shortest longest path through it and returns t's start there. In a tie t
// stays where it is.
func (s *Schedule) fastest(t int32, m *search.Meter) float64 {
	opts := s.Inst.Options(t)
	best := s.Plan[t]
	bestStart := s.startAt(t, int(opts[best].Place))
	bestVia := bestStart + opts[best].Hours + s.AfterAt(t, int(opts[best].Place))
	place, start, after := int32(-1), 0.0, 0.0
	for k := range opts {
		if opts[k].Place != place {
			place = opts[k].Place
			start, after = s.startAt(t, int(place)), s.AfterAt(t, int(place))
		}
		if via := start + opts[k].Hours + after; via < bestVia {
			best, bestStart, bestVia = int32(k), start, via // #nosec G115 -- at most MaxCandidates
		}
	}
	m.Spend(len(opts) * (1 + len(s.Inst.In.Of(t)) + len(s.Inst.Out.Of(t))))
	s.Plan[t] = best
	return bestStart
}

// Cheapen moves one task at a time to the cheapest option, including transfers, with which no path through it is
// longer than limit. If there is none, it moves to the option with the shortest longest path. A plan within the limit
// stays within it and never gets more expensive. No move makes another task exceed the limit, or exceed it by more,
// so the process ends.
func (s *Schedule) Cheapen(limit float64, m *search.Meter) {
	cost := make([]float64, 0, 64)
	for changed := true; changed && !m.Stopped; {
		changed = false
		for _, t := range s.Inst.Topo {
			var moved bool
			moved, s.Start[t], cost = s.cheapest(t, limit, cost, m)
			changed = changed || moved
		}
		for _, t := range slices.Backward(s.Inst.Topo) {
			var moved bool
			moved, _, cost = s.cheapest(t, limit, cost, m)
			changed = changed || moved
			s.After[t] = s.AfterAt(t, s.Inst.PlaceOf(s.Plan, t))
		}
		s.ComputeStarts()
	}
}

// cheapest does one move for Cheapen. It returns whether t moved, and t's start. It ignores differences that may be
// rounding errors. cost is scratch space.
func (s *Schedule) cheapest(
	t int32, limit float64, cost []float64, m *search.Meter,
) (moved bool, start float64, scratch []float64) {
	const rounding = 1e-12
	limit += rounding * limit
	opts := s.Inst.Options(t)
	cost = search.Grow(cost, len(opts))
	s.Inst.LocalCosts(cost, s.Plan, t)
	best := s.Plan[t]
	start = s.startAt(t, int(opts[best].Place))
	bestLate := max(0, start+opts[best].Hours+s.AfterAt(t, int(opts[best].Place))-limit)
	place, begin, after := int32(-1), 0.0, 0.0
	for k := range opts {
		cheaper := cost[k] < cost[best]-rounding*cost[best]
		if bestLate == 0 && !cheaper {
			continue
		}
		if opts[k].Place != place {
			place = opts[k].Place
			begin, after = s.startAt(t, int(place)), s.AfterAt(t, int(place))
		}
		late := max(0, begin+opts[k].Hours+after-limit)
		if late < bestLate-rounding*limit || late == 0 && (cheaper || bestLate > 0) {
			best, start, bestLate = int32(k), begin, late // #nosec G115 -- at most MaxCandidates
			moved = true
		}
	}
	m.Spend(len(opts) * (1 + len(s.Inst.In.Of(t)) + len(s.Inst.Out.Of(t))))
	s.Plan[t] = best
	return moved, start, cost
}

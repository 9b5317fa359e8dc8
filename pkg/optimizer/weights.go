package optimizer

import (
	"errors"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A weighted sum of cost and makespan is minimal at a point of their Pareto front, whatever the shape of the front. The
// search finds it as [Frontier] finds points: it solves the cheapest plan within a deadline again and again. It leaves
// out the ranges of makespans in which even the known minimum cost would not make the sum smaller than the best one.

// weightedSearch is the state of one search.
type weightedSearch struct {
	model  Model // its objective and deadline change during the search
	w      Weights
	th     search.Thresholds
	meter  *search.Meter
	best   *Solution
	open   []span
	cut    bool    // a limit stopped the search
	missed float64 // lower bound of the sum in ranges whose search was stopped
}

// span is a range of makespans, in hours: above after and below until. Plans in it cost at least usd.
type span struct {
	after, until, usd float64
	depth             int
}

func solveWeighted(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	s := &weightedSearch{model: *m, w: *m.Weights, th: th, meter: meter, missed: math.Inf(1)}
	s.model.Weights = nil
	cheap, err := s.solve(Cost, m.DeadlineHours, hint)
	if err != nil || cheap.Status == Infeasible {
		return cheap, err
	}
	fast, err := s.solve(Makespan, m.DeadlineHours, cheap.Picks)
	if err != nil && !errors.Is(err, ErrUndecided) {
		return nil, err
	}
	least := 0.0
	if err == nil && fast.Status != Infeasible {
		least = fast.Bound
	}
	// Plans that are no faster than the cheapest one are no better, as far as it is proven to be the cheapest.
	s.missed = s.w.of(cheap.Bound, cheap.Hours)
	s.open = append(s.open, span{after: least, until: cheap.Hours, usd: cheap.Bound})
	for len(s.open) > 0 && !s.cut {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	return s.result(), nil
}

// solve solves the model with another objective and deadline, and keeps the plan if it is the best so far.
func (s *weightedSearch) solve(o Objective, deadline *float64, hint []int) (*Solution, error) {
	const share = 0.4 // of the remaining work
	part := s.meter.Part(share)
	s.model.Objective, s.model.DeadlineHours = o, deadline
	sol, err := solveOn(part, &s.model, hint, s.th)
	s.meter.Join(part)
	if c := s.meter.Cancelled(); c != nil {
		return nil, c
	}
	if err == nil && sol.Status != Infeasible && (s.best == nil || s.sum(sol) < s.sum(s.best)) {
		s.best = sol
	}
	return sol, err
}

func (s *weightedSearch) sum(sol *Solution) float64 { return s.w.of(sol.USD, sol.Hours) }

// bound is a lower bound of the sum of all plans in a span.
func (s *weightedSearch) bound(x *span) float64 { return s.w.of(x.usd, x.after) }

// step searches the span with the lowest bound: for a deadline in its middle, or every other time just before its end,
// which proves that it has no more plans.
func (s *weightedSearch) step() error {
	k := 0
	for i := range s.open {
		if s.bound(&s.open[i]) < s.bound(&s.open[k]) {
			k = i
		}
	}
	x := s.open[k]
	s.open = slices.Delete(s.open, k, k+1)
	best := s.sum(s.best)
	if s.w.Hours > 0 { // later plans are no better, as they cost at least as much
		x.until = min(x.until, (best-s.w.USD*x.usd)/s.w.Hours)
	}
	deadline := x.until * (1 - minDistance)
	if s.bound(&x) >= best*(1-minDistance) || deadline <= x.after {
		s.missed = min(s.missed, max(s.bound(&x), best*(1-minDistance)))
		return nil
	}
	if x.depth%2 == 0 {
		deadline = (x.after + x.until) / 2
		s.open = append(s.open, span{after: deadline, until: x.until, usd: x.usd, depth: x.depth + 1})
	}
	sol, err := s.solve(Cost, &deadline, nil)
	switch {
	case errors.Is(err, ErrUndecided):
		s.cut, s.missed = true, min(s.missed, s.bound(&x))
		return nil
	case err != nil:
		return err
	case sol.Status == Infeasible:
		return nil
	}
	s.cut, s.missed = s.cut || s.meter.Stopped, min(s.missed, s.w.of(sol.Bound, sol.Hours))
	s.open = append(s.open, span{after: x.after, until: min(sol.Hours, deadline), usd: max(sol.Bound, x.usd),
		depth: x.depth + 1})
	return nil
}

// result is the best plan with the lowest bound of everything that was not searched.
func (s *weightedSearch) result() *Solution {
	sol := *s.best
	sol.Objective = s.sum(s.best)
	lower := s.missed
	for i := range s.open {
		lower = min(lower, s.bound(&s.open[i]))
	}
	sol.Bound, sol.Status, sol.Message = min(lower, sol.Objective), Optimal, ""
	if sol.Bound >= sol.Objective*(1-2*minDistance) {
		sol.Bound = sol.Objective
	} else {
		sol.Status, sol.Message = Feasible, stoppedEarly(sol.Objective, sol.Bound)
	}
	sol.Millis = s.meter.Millis()
	return &sol
}

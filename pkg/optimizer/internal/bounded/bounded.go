// Package bounded finds the minimum cost within a deadline, or the minimum makespan within a budget, by branch and
// bound over the options of tasks. Searches with rounded-down times, and probes of deadlines by bisection, close the
// gap that the price of time leaves.
package bounded

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/labels"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/pricing"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/schedule"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Search minimises the cost of the plans that meet a deadline, or the makespan of the plans within a budget. In
// both cases, two limits bound the plans that it looks for: one on the makespan and one on the cost. One of them is the
// given deadline or budget; the other falls with each better plan. The windows bound the makespan, and the Lagrangian
// bounds makespan and cost together.
type Search struct {
	Inst       *problem.Instance
	Meter      *search.Meter
	Thresholds search.Thresholds
	buf        network.Scratch
	// If ByTime is true, the makespan is minimised and Limit is the budget. Otherwise the cost is minimised and Limit
	// is the deadline.
	ByTime bool
	Limit  float64
	// within is the makespan from which on a plan misses the deadline; if 0, it follows from Limit. ceiling is the
	// cost from which on no plan is worth finding; 0 means none.
	within, ceiling float64
	// Floor is a lower bound of the cost of all plans.
	Floor float64

	Best  problem.Plan // nil while none is known
	Upper float64
	Lower float64

	root   *windows.Box
	dual   *pricing.Lagrangian
	prices pricing.Pricer
	// stuck means that no search is possible, because the windows need too much memory or there is no plan to start
	// from: the current plan and bound are final.
	stuck       bool
	Cheap, Fast problem.Plan
	// begun is the work done when the search of the tree began. rooted is the cut for which the root was last
	// narrowed.
	begun  int64
	rooted float64
	// roundings are searches with rounded times. steps is the number of time steps of the last one, and roundWork the
	// work of all of them. coarse means that this search is itself a rounding. offered is the cost of its best plan
	// when that plan was last passed to the original search.
	roundings []*rounding
	steps     int
	roundWork int64
	coarse    bool
	offered   float64
	// Probes bound the makespan by searches for the minimum cost.
	Probes Prober
	// slack is the amount in USD that the last bound lacked to exclude its box.
	slack float64
	search.OpenList
}

// TimeCut returns the makespan from which on a plan is of no use.
func (s *Search) TimeCut() float64 {
	if s.ByTime {
		return search.CutBelow(s.Upper)
	}
	if s.within > 0 {
		return s.within
	}
	return search.Beyond(s.Limit)
}

// costCut returns the cost from which on a plan is of no use.
func (s *Search) costCut() float64 {
	if s.ByTime {
		return search.Beyond(s.Limit)
	}
	return search.CutBelow(s.Upper)
}

func (s *Search) cut() float64 {
	if s.ByTime {
		return s.TimeCut()
	}
	return s.costCut()
}

// bound returns the bound on the objective that a value of the lagrangian proves.
func (s *Search) bound(value float64) float64 {
	if s.ByTime {
		if s.dual.Lambda == 0 {
			return 0
		}
		return (value - s.costCut()) / s.dual.Lambda
	}
	return value - s.dual.Lambda*s.TimeCut()
}

// Start prepares the search. cheap and fast are the best plans for either objective alone. known are all plans to
// start from; at least one should satisfy the limit. lower is a bound that is already proven.
func (s *Search) Start(cheap, fast problem.Plan, known []problem.Plan, lower float64) {
	s.Upper, s.Lower = search.Inf, lower
	s.Cheap, s.Fast = cheap, fast
	if s.ceiling > 0 {
		s.Best, s.Upper = fast, s.ceiling
	}
	for _, p := range known {
		s.offer(p)
	}
	if s.Best == nil || s.Inst.NTask()*s.Inst.NPlace > s.Thresholds.WindowEntries {
		s.stuck = true
		s.Push(s.Lower, nil)
		return
	}
	s.root = windows.NewBox(s.Inst)
	s.dual = pricing.NewLagrangian(s.Inst, s.Thresholds)
	s.prices = pricing.NewPricer(s.Inst, cheap, fast, s.Thresholds)
	if s.ByTime {
		s.tightenDeadline()
	}
	if !s.root.Narrow(s.TimeCut(), &s.buf, s.Meter) {
		s.Lower = s.Upper
		return
	}
	if s.large() && s.ByTime {
		s.probeFirst()
	} else if s.large() {
		for s.steps < MaxSteps/2 && !s.Meter.Stopped {
			s.coarsen()
		}
		for done := s.Meter.Work; len(s.roundings) > 0 && s.Lower < s.cut() && s.Meter.Work < done+
			s.Thresholds.RoundAfter; {
			s.refine()
		}
	}
	bound, open := s.tighten(s.root, rootRounds())
	if !open || s.Lower >= s.cut() {
		s.Lower = s.Upper
		return
	}
	s.Lower = min(s.Upper, max(s.Lower, bound))
	s.seek()
	if s.setLabels() {
		s.Lower = s.Upper
		return
	}
	s.Push(s.Lower, nil)
}

// offer improves plan p, first to satisfy the bounds if possible, then by single moves, and stores the result if it
// is the best so far.
func (s *Search) offer(p problem.Plan) {
	sch := schedule.New(s.Inst, slices.Clone(p))
	limit := s.Limit
	if s.ByTime {
		limit = min(s.TimeCut(), sch.Makespan())
	}
	sch.Cheapen(limit, s.Meter)
	s.keep(sch.Plan)
}

// keep stores p if it satisfies the bounds and is the best so far.
func (s *Search) keep(p problem.Plan) bool {
	usd, hours := s.Inst.Cost(p), s.Inst.Makespan(p)
	objective, ok := usd, hours < s.TimeCut()
	if s.ByTime {
		objective, ok = hours, usd < s.costCut()
	}
	if !ok || objective >= s.Upper {
		return false
	}
	s.Best, s.Upper = slices.Clone(p), objective
	return true
}

// tightenDeadline searches by bisection for the tightest deadline for which single moves from the best plan stay within
// the budget.
func (s *Search) tightenDeadline() {
	low := s.Lower
	for range 20 {
		if s.Upper-low <= 1e-3*s.Upper {
			return
		}
		middle := (low + s.Upper) / 2
		sch := schedule.New(s.Inst, slices.Clone(s.Best))
		sch.Cheapen(middle, s.Meter)
		if !s.keep(sch.Plan) {
			low = middle
		}
	}
}

// rounds configures the rounds of the lagrangian on a box: the maximum number, the number after which the plan is
// improved, the number of rounds with little gain after which to give up, and the share of the gap that may remain
// between the bound and its best possible value.
type rounds struct {
	most, offerEvery, patience int
	converged                  float64
}

func rootRounds() rounds {
	return rounds{most: 200, offerEvery: 1, patience: 15, converged: 0.002}
}

func branchRounds() rounds {
	return rounds{most: 8, offerEvery: 8, patience: 3, converged: 0.1}
}

// tighten raises the bound on the plans in b and excludes options, for up to r.most rounds. It returns the best bound
// and whether b may still contain a better plan.
func (s *Search) tighten(b *windows.Box, r rounds) (bound float64, open bool) {
	l := s.dual
	l.Enter(b)
	bound = math.Inf(-1)
	best := math.Inf(-1) // on the cost within timeCut
	defer func() { s.slack = s.costCut() - best }()
	s.prices.Begin(b, s.TimeCut(), s.costCut())
	stale := 0
	for k := range r.most {
		s.prices.Inform(l)
		value := l.Evaluate(b, s.Meter)
		if s.Meter.Stopped {
			return bound, true
		}
		within := value - l.Lambda*s.TimeCut()
		if within >= s.costCut() {
			return bound, false
		}
		bound = max(bound, s.bound(value))
		stale++
		if within > best {
			if within-best > 0.01*(s.costCut()-best) {
				stale = 0
			}
			best = within
			s.prices.Remember()
		}
		if !s.filter(b, value) {
			return bound, false
		}
		p := l.Round()
		if k%r.offerEvery == 0 {
			s.offer(p)
		} else {
			s.keep(p)
		}
		s.prices.Answer(b, p, s.TimeCut(), s.costCut())
		if stale == r.patience || s.prices.Reach()-best <= r.converged*(s.costCut()-best) {
			break
		}
	}
	return bound, true
}

// seek looks for better plans if there are too many tasks to hope for the optimum. It takes the plans that result
// from prices that push towards a deadline, and improves them by single moves. If the makespan is minimised, the
// deadline is half way to the bound, repeatedly.
func (s *Search) seek() {
	sp, ok := s.prices.(*pricing.Spreader)
	if !ok {
		return
	}
	sp.Urgent = true
	low := s.Lower
	for s.ByTime && s.Upper-low > 1e-3*s.Upper && !s.Meter.Stopped {
		deadline := (low + s.Upper) / 2
		if !s.pushTowards(sp, deadline, 12) {
			low = deadline
		}
	}
	for !s.ByTime && s.pushTowards(sp, s.TimeCut(), 12) {
	}
	sp.Urgent = false
	sp.Recall()
}

// pushTowards does the given number of rounds towards plans within the deadline and reports whether it found a better
// plan.
func (s *Search) pushTowards(sp *pricing.Spreader, deadline float64, rounds int) bool {
	before := s.Upper
	if s.ByTime {
		sp.Recall()
	}
	for range rounds {
		sp.Inform(s.dual)
		s.dual.Evaluate(s.root, s.Meter)
		if s.Meter.Stopped || s.Upper < before && s.ByTime {
			break
		}
		p := s.dual.Round()
		sch := schedule.New(s.Inst, slices.Clone(p))
		sch.Cheapen(deadline, s.Meter)
		s.keep(sch.Plan)
		sp.Answer(s.root, p, deadline, s.costCut())
	}
	return s.Upper < before
}

// filter excludes the options of b that the value just computed or the windows exclude.
func (s *Search) filter(b *windows.Box, value float64) bool {
	slack := s.costCut() + s.dual.Lambda*s.TimeCut() - value
	for t := range int32(len(b.Left)) { // #nosec G115 -- at most MaxTasks
		if b.Left[t] > 1 && !b.Keep(t, func(o int32) bool { return s.dual.Excess(t, o) < slack }) {
			return false
		}
	}
	return b.Narrow(s.TimeCut(), &s.buf, s.Meter)
}

// setLabels finds the optimum by label setting, if possible, and reports whether it did.
func (s *Search) setLabels() bool {
	s.prices.Recall()
	s.prices.Inform(s.dual)
	return labels.Solve(&labels.Problem{
		Inst: s.Inst, Box: s.root, Dual: s.dual, Meter: s.Meter, Thresholds: s.Thresholds,
		TimeCut: s.TimeCut(), CostCut: s.costCut(), ByTime: s.ByTime, From: s.Best, Keep: s.keep,
	})
}

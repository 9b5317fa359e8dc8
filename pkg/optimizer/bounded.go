package optimizer

import (
	"math"
	"slices"
)

// boundedSearch minimises the cost of the plans that meet a deadline, or the
// makespan of those within a budget. Both look for plans in a rectangle of
// makespan and cost, of which one side is given and the other shrinks with each
// better plan. The bounds are the windows for time and the lagrangian for both
// together.
type boundedSearch struct {
	inst       *instance
	meter      *meter
	thresholds thresholds
	buf        scratch
	// byTime tells that the makespan is minimised and limit is the budget;
	// otherwise the cost is and limit is the deadline.
	byTime bool
	limit  float64
	// within is the makespan from which on a plan breaks the deadline, and
	// ceiling the cost from which on nothing is worth finding; 0 is what limit
	// says, and none.
	within, ceiling float64
	// floor is what no plan costs less than.
	floor float64

	best  plan // nil while none is known
	upper float64
	lower float64

	root   *box
	dual   *lagrangian
	prices pricer
	// stuck means that there is nothing to search, for want of memory for the
	// windows or of a plan to start from: what is at hand is all there will be.
	stuck       bool
	cheap, fast plan
	// begun is the work done when the search of the tree began, rooted the cut
	// for which the root was last narrowed.
	begun  int64
	rooted float64
	// roundings are searches under rounded times, the last one begun with so
	// many steps, which took so much work. coarse tells that this is one itself;
	// offered is what its best plan cost when it was last passed on.
	roundings []*rounding
	steps     int
	roundWork int64
	coarse    bool
	offered   float64
	// probes bound the makespan by searches for the least cost.
	probes prober
	// slack is how far the last bound was from ruling its box out, in USD.
	slack float64
	openList
}

// timeCut is the makespan from which on a plan is of no use.
func (s *boundedSearch) timeCut() float64 {
	if s.byTime {
		return cutBelow(s.upper)
	}
	if s.within > 0 {
		return s.within
	}
	return beyond(s.limit)
}

// costCut is the cost from which on a plan is of no use.
func (s *boundedSearch) costCut() float64 {
	if s.byTime {
		return beyond(s.limit)
	}
	return cutBelow(s.upper)
}

func (s *boundedSearch) cut() float64 {
	if s.byTime {
		return s.timeCut()
	}
	return s.costCut()
}

// bound is what a value of the lagrangian proves about the objective.
func (s *boundedSearch) bound(value float64) float64 {
	if s.byTime {
		if s.dual.lambda == 0 {
			return 0
		}
		return (value - s.costCut()) / s.dual.lambda
	}
	return value - s.dual.lambda*s.timeCut()
}

// start sets the search up. cheap and fast are the best plans for either
// objective alone, known all plans to start from, of which one should keep the
// limit; lower is a bound already proven.
func (s *boundedSearch) start(cheap, fast plan, known []plan, lower float64) {
	s.upper, s.lower = inf, lower
	s.cheap, s.fast = cheap, fast
	if s.ceiling > 0 {
		s.best, s.upper = fast, s.ceiling
	}
	for _, p := range known {
		s.offer(p)
	}
	if s.best == nil || s.inst.nTask()*s.inst.nPlace > s.thresholds.windowEntries {
		s.stuck = true
		s.push(s.lower, nil)
		return
	}
	s.root = newBox(s.inst)
	s.dual = newLagrangian(s.inst, s.thresholds)
	s.prices = newPricer(s.inst, cheap, fast, s.thresholds)
	if s.byTime {
		s.hasten()
	}
	if !s.root.narrow(s.timeCut(), &s.buf, s.meter) {
		s.lower = s.upper
		return
	}
	if s.large() && s.byTime {
		s.probeFirst()
	} else if s.large() {
		for s.steps < mostSteps/2 && !s.meter.stopped {
			s.coarsen()
		}
		for done := s.meter.work; len(s.roundings) > 0 && s.lower < s.cut() && s.meter.work < done+s.thresholds.roundAfter; {
			s.refine()
		}
	}
	bound, open := s.tighten(s.root, rootRounds())
	if !open || s.lower >= s.cut() {
		s.lower = s.upper
		return
	}
	s.lower = min(s.upper, max(s.lower, bound))
	s.seek()
	if s.setLabels() {
		s.lower = s.upper
		return
	}
	s.push(s.lower, nil)
}

// offer makes what it can of plan p: within the bounds if possible, then as
// good as single moves make it. It keeps the result if it is the best so far.
func (s *boundedSearch) offer(p plan) {
	sch := newSchedule(s.inst, slices.Clone(p))
	limit := s.limit
	if s.byTime {
		limit = min(s.timeCut(), sch.makespan())
	}
	sch.cheapen(limit, s.meter)
	s.keep(sch.plan)
}

// keep takes p if it keeps the bounds and is the best so far.
func (s *boundedSearch) keep(p plan) bool {
	usd, hours := s.inst.cost(p), s.inst.makespan(p)
	objective, ok := usd, hours < s.timeCut()
	if s.byTime {
		objective, ok = hours, usd < s.costCut()
	}
	if !ok || objective >= s.upper {
		return false
	}
	s.best, s.upper = slices.Clone(p), objective
	return true
}

// hasten looks by bisection for the tightest deadline under which single moves
// from the best plan keep within the budget.
func (s *boundedSearch) hasten() {
	low := s.lower
	for range 20 {
		if s.upper-low <= 1e-3*s.upper {
			return
		}
		middle := (low + s.upper) / 2
		sch := newSchedule(s.inst, slices.Clone(s.best))
		sch.cheapen(middle, s.meter)
		if !s.keep(sch.plan) {
			low = middle
		}
	}
}

// rounds of the lagrangian on a box: at most so many, how often its plan is
// worth improving, after how many that gained little to give up, and which part
// of the gap may remain between the bound and what it could at best become.
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

// tighten raises the bound on the plans in b and rules out options, for so many
// rounds. It returns the best bound and whether b can still hold a better plan.
func (s *boundedSearch) tighten(b *box, r rounds) (bound float64, open bool) {
	l := s.dual
	l.enter(b)
	bound = math.Inf(-1)
	best := math.Inf(-1) // on the cost within timeCut
	defer func() { s.slack = s.costCut() - best }()
	s.prices.begin(b, s.timeCut(), s.costCut())
	stale := 0
	for k := range r.most {
		s.prices.inform(l)
		value := l.evaluate(b, s.meter)
		if s.meter.stopped {
			return bound, true
		}
		within := value - l.lambda*s.timeCut()
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
			s.prices.remember()
		}
		if !s.filter(b, value) {
			return bound, false
		}
		p := l.round()
		if k%r.offerEvery == 0 {
			s.offer(p)
		} else {
			s.keep(p)
		}
		s.prices.answer(b, p, s.timeCut(), s.costCut())
		if stale == r.patience || s.prices.reach()-best <= r.converged*(s.costCut()-best) {
			break
		}
	}
	return bound, true
}

// seek looks for better plans where there are too many tasks to hope for the
// optimum: the plans that answer prices pressing for a deadline, improved by
// single moves. Where the makespan is minimised the deadline is half way to the
// bound, again and again.
func (s *boundedSearch) seek() {
	sp, ok := s.prices.(*spreader)
	if !ok {
		return
	}
	sp.urgent = true
	low := s.lower
	for s.byTime && s.upper-low > 1e-3*s.upper && !s.meter.stopped {
		deadline := (low + s.upper) / 2
		if !s.press(sp, deadline, 12) {
			low = deadline
		}
	}
	for !s.byTime && s.press(sp, s.timeCut(), 12) {
	}
	sp.urgent = false
	sp.recall()
}

// press takes so many rounds towards plans within the deadline and reports
// whether it found a better one.
func (s *boundedSearch) press(sp *spreader, deadline float64, rounds int) bool {
	before := s.upper
	if s.byTime {
		sp.recall()
	}
	for range rounds {
		sp.inform(s.dual)
		s.dual.evaluate(s.root, s.meter)
		if s.meter.stopped || s.upper < before && s.byTime {
			break
		}
		p := s.dual.round()
		sch := newSchedule(s.inst, slices.Clone(p))
		sch.cheapen(deadline, s.meter)
		s.keep(sch.plan)
		sp.answer(s.root, p, deadline, s.costCut())
	}
	return s.upper < before
}

// filter rules out the options of b that the value just computed or the windows
// exclude.
func (s *boundedSearch) filter(b *box, value float64) bool {
	slack := s.costCut() + s.dual.lambda*s.timeCut() - value
	for t := range int32(len(b.left)) { // #nosec G115 -- at most MaxTasks
		if b.left[t] > 1 && !b.keep(t, func(o int32) bool { return s.dual.excess(t, o) < slack }) {
			return false
		}
	}
	return b.narrow(s.timeCut(), &s.buf, s.meter)
}

// setLabels finds the optimum by label setting, where that can be done, and
// reports whether it did.
func (s *boundedSearch) setLabels() bool {
	s.prices.recall()
	s.prices.inform(s.dual)
	return solveByLabels(&labelProblem{
		inst: s.inst, box: s.root, dual: s.dual, meter: s.meter, thresholds: s.thresholds,
		timeCut: s.timeCut(), costCut: s.costCut(), byTime: s.byTime, from: s.best, keep: s.keep,
	})
}

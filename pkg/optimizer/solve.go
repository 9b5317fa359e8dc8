package optimizer

import (
	"context"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/bounded"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/leastcost"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/schedule"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Solve finds the best plan for m.
//
// It returns a *[ModelError] for a malformed model, ctx's error if ctx ends first, and [ErrUndecided] if a limit of o
// stops the search before it found a plan or proved that there is none. An infeasible model is not an error.
func Solve(ctx context.Context, m *Model, o Options) (*Solution, error) {
	return solve(ctx, m, o, search.DefaultThresholds())
}

func solve(ctx context.Context, m *Model, o Options, th search.Thresholds) (*Solution, error) {
	return solveOn(newMeter(ctx, o), m, o.Hint, th)
}

// solveOn solves a model with a meter.
func solveOn(meter *search.Meter, m *Model, hint []int, th search.Thresholds) (*Solution, error) {
	if m.Objective == Weighted {
		return solveWeighted(m, hint, th, meter)
	}
	if len(m.Spread) > 0 {
		return solveSpread(m, hint, th, meter)
	}
	if len(m.Together) > 0 {
		return solveTogether(m, hint, th, meter)
	}
	if m.Objective == Carbon || m.CarbonCapKg != nil {
		return solveCarbon(m, hint, th, meter)
	}
	p, err := Prepare(m)
	if err != nil {
		return nil, err
	}
	return p.solve(meter, hint, th)
}

// run solves the model, starting from a hint, which may be nil.
func (s *solver) run(hint []int) (*Solution, error) {
	if p := s.inst.planOf(hint); p != nil {
		s.known = append(s.known, p)
	}
	sol, err := s.solve()
	if c := s.meter.Cancelled(); c != nil {
		return nil, c
	}
	if err != nil {
		return nil, err
	}
	sol.Millis = s.meter.Millis()
	return sol, nil
}

// foldingFor returns the simplest folding for the model's objective and bounds.
func foldingFor(m *Model) folding {
	if m.Objective == Cost && m.DeadlineHours == nil {
		return foldCheapest
	}
	return foldPareto
}

// solver applies the methods that a model's objective and bounds need.
type solver struct {
	inst       *compiled
	meter      *search.Meter
	thresholds search.Thresholds
	known      []problem.Plan // plans to start from: the caller's hint and those found so far
}

// answer is a plan (nil if none was found) with a proven lower bound of the objective.
type answer struct {
	plan   problem.Plan
	lower  float64
	proven bool
}

func (s *solver) solve() (*Solution, error) {
	if ids := s.inst.withoutOptions(); len(ids) > 0 {
		return &Solution{
			Status:  Infeasible,
			Message: fmt.Sprintf("no candidate for %s", clip(strings.Join(ids, ", "))),
			Reason:  &Reason{Constraint: NoCandidates, Tasks: ids},
		}, nil
	}
	if s.inst.model.Objective == Cost {
		return s.solveCost()
	}
	return s.solveMakespan()
}

// exceedsDeadline reports whether a makespan exceeds the model's limit.
func (s *solver) exceedsDeadline(hours float64) bool {
	d := s.inst.model.DeadlineHours
	return d != nil && hours >= search.Beyond(*d)
}

func (s *solver) exceedsBudget(usd float64) bool {
	b := s.inst.model.BudgetUSD
	return b != nil && usd >= search.Beyond(*b)
}

func (s *solver) solveCost() (*Solution, error) {
	deadline := s.inst.model.DeadlineHours
	if deadline == nil {
		cheap := s.cheapest(s.meter)
		if s.exceedsBudget(cheap.lower) {
			return s.overBudget(cheap), nil
		}
		return s.finish(cheap)
	}
	cheap := s.roughlyCheapest()
	if !cheap.proven && (s.exceedsBudget(cheap.lower) || !s.exceedsDeadline(s.inst.Makespan(cheap.plan))) {
		cheap = s.cheapest(s.meter)
	}
	if s.exceedsBudget(cheap.lower) {
		return s.overBudget(cheap), nil
	}
	if !s.exceedsDeadline(s.inst.Makespan(cheap.plan)) {
		return s.finish(cheap)
	}
	fast := s.fastest(search.Beyond(*deadline))
	if s.exceedsDeadline(fast.lower) {
		return s.pastDeadline(fast), nil
	}
	if s.exceedsDeadline(s.inst.Makespan(fast.plan)) {
		return nil, s.undecided(Makespan, fast.lower)
	}
	a := s.bounded(false, *deadline, cheap, fast)
	if s.exceedsBudget(a.lower) {
		return s.overBoth(cheap, fast, &a, nil), nil
	}
	return s.finish(a)
}

func (s *solver) solveMakespan() (*Solution, error) {
	budget := s.inst.model.BudgetUSD
	if budget == nil {
		fast := s.fastest(0)
		if s.exceedsDeadline(fast.lower) {
			return s.pastDeadline(fast), nil
		}
		return s.finish(s.breakTieByCost(fast, nil))
	}
	cheap := s.roughlyCheapest()
	if !cheap.proven && s.exceedsBudget(s.inst.Cost(cheap.plan)) {
		cheap = s.cheapest(s.meter)
	}
	if s.exceedsBudget(cheap.lower) {
		return s.overBudget(cheap), nil
	}
	if s.exceedsBudget(s.inst.Cost(cheap.plan)) {
		return nil, s.undecided(Cost, cheap.lower)
	}
	fast := s.roughlyFastest()
	if !fast.proven && (s.exceedsDeadline(fast.lower) || !s.exceedsBudget(s.inst.Cost(fast.plan))) {
		fast = s.fastest(0)
	}
	if s.exceedsDeadline(fast.lower) {
		return s.pastDeadline(fast), nil
	}
	if !s.exceedsBudget(s.inst.Cost(fast.plan)) {
		return s.finish(s.breakTieByCost(fast, &cheap))
	}
	a := s.bounded(true, *budget, cheap, fast)
	if s.exceedsDeadline(a.lower) {
		return s.overBoth(cheap, fast, nil, &a), nil
	}
	return s.finish(s.breakTieByCost(a, &cheap))
}

// minTieWork is the minimum work that breakTieByCost may do, some milliseconds, for plans that were found at once.
const minTieWork = 2_000_000

// breakTieByCost looks for the cheapest plan that is as fast as the given one. The solver's method fastest only moves
// one task of a plan at a time, so it misses plans in which several tasks must move together. cheap is the cheapest
// plan of all, if it is known. The search may do as much work as the proof of the makespan, but at least minTieWork.
// The limit is needed because proving the minimum cost within a makespan can be far harder than proving the makespan.
func (s *solver) breakTieByCost(fast answer, cheap *answer) answer {
	if fast.plan == nil || s.meter.Stopped {
		return fast
	}
	whole := s.meter
	s.meter = whole.Part(0.3)
	s.meter.AtMost(max(whole.Work, minTieWork))
	defer func() {
		whole.Join(s.meter)
		s.meter = whole
	}()
	if cheap == nil || !cheap.proven {
		a := s.cheapest(s.meter)
		cheap = &a
	}
	limit := s.inst.Makespan(fast.plan)
	best := cheap.plan
	if s.inst.Makespan(best) >= search.Beyond(limit) {
		best = s.bounded(false, limit, *cheap, fast).plan
	}
	if best != nil && s.inst.Makespan(best) < search.Beyond(limit) && s.inst.Cost(best) < s.inst.Cost(fast.plan) {
		fast.plan = best
	}
	return fast
}

// cheapest minimises the cost without a deadline.
func (s *solver) cheapest(m *search.Meter) answer {
	var a answer
	a.plan, a.lower, a.proven = leastcost.NewSolver(&s.inst.Instance, s.thresholds, m).Solve(s.known)
	s.known = append(s.known, a.plan)
	return a
}

// roughlyCheapest is cheapest for an intermediate result: a gap of one part in a thousand is enough.
func (s *solver) roughlyCheapest() answer {
	m := s.meter.Part(0.3)
	m.Gap = max(m.Gap, 1e-3)
	a := s.cheapest(m)
	s.meter.Join(m)
	return a
}

// fastest minimises the makespan without a budget; it may stop below enough. Then it uses the slack of tasks off the
// longest path to make the plan cheaper.
func (s *solver) fastest(enough float64) answer {
	var a answer
	a.plan, a.lower, a.proven = schedule.Solve(&s.inst.Instance, s.known, enough, s.thresholds, s.meter)
	sch := schedule.New(&s.inst.Instance, a.plan)
	sch.Cheapen(sch.Makespan(), s.meter)
	a.plan = sch.Plan
	s.known = append(s.known, a.plan)
	return a
}

// roughlyFastest is fastest for an intermediate result.
func (s *solver) roughlyFastest() answer {
	whole := s.meter
	defer func() { s.meter = whole }()
	s.meter = whole.Part(0.5)
	s.meter.Gap = max(s.meter.Gap, 1e-3)
	a := s.fastest(0)
	whole.Join(s.meter)
	return a
}

// bounded minimises the cost within a deadline or, if byTime, the makespan within a budget. cheap and fast are the
// answers without the limit; one of them satisfies it.
func (s *solver) bounded(byTime bool, limit float64, cheap, fast answer) answer {
	b := &bounded.Search{
		Inst: &s.inst.Instance, Meter: s.meter, Thresholds: s.thresholds, ByTime: byTime, Limit: limit,
		Floor: cheap.lower,
	}
	lower := cheap.lower
	if byTime {
		lower = fast.lower
	}
	b.Start(cheap.plan, fast.plan, s.known, lower)
	b.Run()
	return answer{plan: b.Best, lower: b.Lower, proven: b.Finished()}
}

// finish converts an answer to a solution. The plan may still exceed the limit on its own objective.
func (s *solver) finish(a answer) (*Solution, error) {
	m := s.inst.model
	if a.plan == nil {
		return nil, s.undecided(m.Objective, a.lower)
	}
	sol := &Solution{
		Status: Feasible, USD: s.inst.Cost(a.plan), Hours: s.inst.Makespan(a.plan), Picks: s.inst.Picks(a.plan),
	}
	sol.Objective = sol.USD
	if m.Objective == Makespan {
		sol.Objective = sol.Hours
	}
	if s.exceedsBudget(sol.USD) || s.exceedsDeadline(sol.Hours) {
		return nil, s.undecided(m.Objective, a.lower)
	}
	sol.Bound = min(a.lower*(1-1e-12), sol.Objective)
	if a.proven {
		sol.Status, sol.Bound = Optimal, sol.Objective
	} else {
		sol.Message = stoppedEarly(sol.Objective, sol.Bound)
	}
	sol.Choice = make(map[string]string, len(sol.Picks))
	for t, k := range sol.Picks {
		sol.Choice[m.Tasks[t].ID] = m.Tasks[t].Candidates[k].ID
	}
	for _, t := range s.inst.Order { // in canonical order, because the rounding of a sum depends on the order
		sol.KgCO2 += m.Tasks[t].Candidates[sol.Picks[t]].KgCO2
	}
	return sol, nil
}

func (s *solver) undecided(what Objective, lower float64) error {
	return fmt.Errorf("%w: the minimum %s is at least %.6g", ErrUndecided, what, lower)
}

func newMeter(ctx context.Context, o Options) *search.Meter {
	return search.Start(ctx, search.Limits{Time: o.TimeLimit, Work: o.WorkLimit, Gap: o.Gap, Now: o.Now})
}

// stoppedEarly returns a message with the maximum distance of an objective from the optimum.
func stoppedEarly(objective, bound float64) string {
	percent := 100 * (objective - bound) / objective
	return fmt.Sprintf("stopped before the optimum was proven: it may be up to %.3g%% lower", percent)
}

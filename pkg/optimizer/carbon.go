package optimizer

import (
	"fmt"
	"math"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A model with a carbon objective or cap is solved by the other methods. Like costs, emissions are a sum over tasks:
//
//   - Minimum emissions (within a deadline) is the cost problem with emissions instead of costs.
//   - Minimum makespan within a cap is the makespan problem within a budget, with emissions instead of costs.
//   - A problem with one sum to minimise and another to limit is solved in capped.go, and so is a makespan with two
//     limited sums.

// measure is a weighted sum: usd times the cost plus kg times the emissions.
type measure struct {
	usd, kg float64
}

func (a measure) plus(f float64, b measure) measure { return measure{a.usd + f*b.usd, a.kg + f*b.kg} }

func (a measure) of(usd, kg float64) float64 { return a.usd*usd + a.kg*kg }

var (
	dollars   = measure{usd: 1}
	emissions = measure{kg: 1}
)

// carbonSolver solves one model with a carbon objective or cap.
type carbonSolver struct {
	m          *Model
	thresholds search.Thresholds
	meter      *search.Meter
	hint       []int
	inst       *compiled // of the whole model, to compute the cost of plans
}

func solveCarbon(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	inst, err := compile(m, foldPareto)
	if err != nil {
		return nil, err
	}
	s := &carbonSolver{m: m, thresholds: th, meter: meter, hint: hint, inst: inst}
	sol, err := s.solve()
	if c := meter.Cancelled(); c != nil {
		return nil, c
	}
	if err != nil {
		return nil, err
	}
	sol.Millis = meter.Millis()
	return sol, nil
}

func (s *carbonSolver) solve() (*Solution, error) {
	if ids := s.inst.withoutOptions(); len(ids) > 0 {
		return &Solution{
			Status: Infeasible, Message: fmt.Sprintf("no candidate for %s", clip(strings.Join(ids, ", "))),
			Reason: &Reason{Constraint: NoCandidates, Tasks: ids},
		}, nil
	}
	// First solve with the other limits only, so that an infeasible model gives the same reason as a model without
	// carbon.
	plain := *s.m
	plain.CarbonCapKg = nil
	if plain.Objective == Carbon {
		plain.Objective = Cost
	}
	first, err := s.sub(&plain, s.hint)
	if err != nil || first.Status == Infeasible {
		return first, err
	}
	least, err := s.leastEmissions(first.Picks)
	if err != nil {
		return nil, err
	}
	if limit := s.m.CarbonCapKg; limit != nil && least.Bound >= search.Beyond(*limit) {
		return s.overCap(least), nil
	}
	if s.m.Objective == Carbon {
		if limit := s.m.CarbonCapKg; limit != nil && s.emissions(least.Picks) >= search.Beyond(*limit) {
			return nil, fmt.Errorf("%w: the minimum emissions are at least %.6g kg", ErrUndecided, least.Bound)
		}
		return s.complete(least), nil
	}
	if s.emissions(first.Picks) < search.Beyond(*s.m.CarbonCapKg) {
		return s.complete(first), nil
	}
	if s.m.Objective == Makespan && s.m.BudgetUSD == nil {
		v := s.view(emissions, nil)
		v.Objective, v.BudgetUSD = Makespan, s.m.CarbonCapKg
		sol, err := s.sub(v, least.Picks)
		if err != nil || sol.Status == Infeasible {
			return sol, err
		}
		return s.complete(sol), nil
	}
	return s.capped(first, least)
}

// leastEmissions returns the plan with minimum emissions within the deadline and the budget; its objective and bound
// are in kg. Without a deadline it is the cheapest such plan.
func (s *carbonSolver) leastEmissions(hint []int) (*Solution, error) {
	v := s.view(emissions, nil)
	sol, err := s.sub(v, hint)
	if err != nil || sol.Status == Infeasible {
		return sol, err
	}
	if s.m.DeadlineHours == nil {
		lean := s.cleanest()
		v = s.view(dollars, lean)
		cheap, err := s.sub(v, nil)
		if err != nil {
			return nil, err
		}
		cheap = s.unmask(cheap, lean)
		if s.m.BudgetUSD == nil || s.cost(cheap.Picks) < search.Beyond(*s.m.BudgetUSD) {
			cheap.Objective, cheap.Bound, cheap.Status = sol.Objective, sol.Bound, sol.Status
			return cheap, nil
		}
	} else if s.m.BudgetUSD == nil || s.cost(sol.Picks) < search.Beyond(*s.m.BudgetUSD) {
		return sol, nil
	}
	// the cleanest plan exceeds the budget
	c := &cappedSearch{s: s, minimise: emissions, bound: dollars, limit: *s.m.BudgetUSD}
	return c.run(sol.Picks, hint)
}

// cleanest marks the candidates with the lowest emissions of each task.
func (s *carbonSolver) cleanest() [][]bool {
	mask := make([][]bool, len(s.m.Tasks))
	for t := range s.m.Tasks {
		cands := s.m.Tasks[t].Candidates
		least := math.Inf(1)
		for k := range cands {
			least = min(least, cands[k].KgCO2)
		}
		mask[t] = make([]bool, len(cands))
		for k := range cands {
			mask[t][k] = cands[k].KgCO2 == least
		}
	}
	return mask
}

// capped minimises the cost, or the makespan within the budget, within the carbon cap.
func (s *carbonSolver) capped(first, least *Solution) (*Solution, error) {
	c := &cappedSearch{s: s, minimise: dollars, bound: emissions, limit: *s.m.CarbonCapKg}
	if s.m.Objective == Makespan {
		c.byTime, c.budget = true, *s.m.BudgetUSD
	}
	sol, err := c.run(first.Picks, least.Picks)
	if err != nil {
		return nil, err
	}
	tooDear := s.m.Objective == Cost && s.m.BudgetUSD != nil && sol.Bound >= search.Beyond(*s.m.BudgetUSD)
	if tooDear || sol.Status == Infeasible {
		return s.overCap(least), nil
	}
	if s.m.BudgetUSD != nil && s.cost(sol.Picks) >= search.Beyond(*s.m.BudgetUSD) {
		return nil, fmt.Errorf("%w: the minimum cost within the cap is at least %.6g", ErrUndecided, sol.Bound)
	}
	return s.complete(sol), nil
}

// view returns the model with a measure instead of costs, only the candidates in mask (nil means all), and no budget
// or cap. Values above MaxValue are cut to MaxValue: bounds stay valid, and no plan that the search looks for
// contains such a value.
func (s *carbonSolver) view(a measure, mask [][]bool) *Model {
	v := &Model{
		Objective: Cost, DeadlineHours: s.m.DeadlineHours, Places: s.m.Places, HoursPerGiB: s.m.HoursPerGiB,
		Edges: s.m.Edges, USDPerGiB: make([][]float64, len(s.m.Places)), Tasks: make([]Task, len(s.m.Tasks)),
	}
	for p, row := range s.m.USDPerGiB {
		v.USDPerGiB[p] = make([]float64, len(row))
		for q, usd := range row {
			v.USDPerGiB[p][q] = min(a.usd*usd, MaxValue)
		}
	}
	for t := range s.m.Tasks {
		cands := s.m.Tasks[t].Candidates
		v.Tasks[t].ID = s.m.Tasks[t].ID
		for k := range cands {
			if mask != nil && !mask[t][k] {
				continue
			}
			c := cands[k]
			c.USD = min(a.of(c.USD, c.KgCO2), MaxValue)
			v.Tasks[t].Candidates = append(v.Tasks[t].Candidates, c)
		}
	}
	return v
}

// sub solves a model without carbon with this solver's meter.
func (s *carbonSolver) sub(m *Model, hint []int) (*Solution, error) {
	p, err := Prepare(m)
	if err != nil {
		return nil, err
	}
	return p.solve(s.meter, hint, s.thresholds)
}

// unmask converts picks among a mask's candidates to picks among all.
func (s *carbonSolver) unmask(sol *Solution, mask [][]bool) *Solution {
	if mask == nil {
		return sol
	}
	for t, pick := range sol.Picks {
		for k, in := range mask[t] {
			if !in {
				continue
			}
			if pick == 0 {
				sol.Picks[t] = k
				break
			}
			pick--
		}
	}
	return sol
}

func (s *carbonSolver) emissions(picks []int) float64 {
	kg := 0.0
	for _, t := range s.inst.Order {
		kg += s.m.Tasks[t].Candidates[picks[t]].KgCO2
	}
	return kg
}

// cost returns the cost of a plan (equation 1).
func (s *carbonSolver) cost(picks []int) float64 {
	usd := 0.0
	at := make([]int, len(picks))
	for i, t := range s.inst.Order {
		c := &s.m.Tasks[t].Candidates[picks[t]]
		usd += c.USD
		at[i] = c.Place
	}
	for i := range s.inst.Edges {
		e := &s.inst.Edges[i]
		usd += e.SumGiB * s.m.USDPerGiB[at[e.From]][at[e.To]]
	}
	return usd
}

// makespan returns the makespan of a plan (equation 3).
func (s *carbonSolver) makespan(picks []int) float64 {
	finish := make([]float64, len(picks))
	last := 0.0
	at := func(t int32) *Candidate {
		i := s.inst.Order[t]
		return &s.m.Tasks[i].Candidates[picks[i]]
	}
	for _, t := range s.inst.Topo {
		start := 0.0
		for _, i := range s.inst.In.Of(t) {
			e := &s.inst.Edges[i]
			start = max(start, finish[e.From]+e.MaxGiB*s.m.HoursPerGiB[at(e.From).Place][at(t).Place])
		}
		finish[t] = start + at(t).Hours
		last = max(last, finish[t])
	}
	return last
}

// complete converts a solution of a view, of which Picks, Status and Bound are valid, to a solution of the model.
func (s *carbonSolver) complete(sol *Solution) *Solution {
	out := &Solution{
		Status: sol.Status, Bound: sol.Bound, Message: sol.Message, Picks: sol.Picks,
		USD: s.cost(sol.Picks), Hours: s.makespan(sol.Picks), KgCO2: s.emissions(sol.Picks),
		Choice: make(map[string]string, len(sol.Picks)),
	}
	switch s.m.Objective {
	case Cost:
		out.Objective = out.USD
	case Makespan:
		out.Objective = out.Hours
	case Carbon:
		out.Objective = out.KgCO2
	}
	if out.Status == Optimal {
		out.Bound = out.Objective
	}
	out.Bound = min(out.Bound, out.Objective)
	for t, k := range out.Picks {
		out.Choice[s.m.Tasks[t].ID] = s.m.Tasks[t].Candidates[k].ID
	}
	return out
}

// overCap returns the solution if the cap cannot be met with the other limits. least is the plan with minimum
// emissions within those limits.
func (s *carbonSolver) overCap(least *Solution) *Solution {
	kg, more := least.Bound, "at least "
	if least.Status == Optimal {
		kg, more = s.emissions(least.Picks), ""
	}
	with := ""
	switch {
	case s.m.DeadlineHours != nil && s.m.BudgetUSD != nil:
		with = " within the deadline and the budget"
	case s.m.DeadlineHours != nil:
		with = " within the deadline"
	case s.m.BudgetUSD != nil:
		with = " within the budget"
	}
	limit := *s.m.CarbonCapKg
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the carbon cap is %.6g kg but the cleanest plan%s emits %s%.6g kg: raise it by %.6g kg",
			limit, with, more, kg, kg-limit),
		Reason: &Reason{Constraint: CarbonCap, LeastKgCO2: kg, Exact: least.Status == Optimal},
	}
}

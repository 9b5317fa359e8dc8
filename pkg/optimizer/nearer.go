package optimizer

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/words"
)

// nearer is what a model lacks of which one part of the plans lacks a, and the other b: either part would do. What
// bounds a relaxation from below is the lesser of the two; where no relaxation of a kind helps the one, it is the
// other's. A message that holds for neither is left to lacking.
func nearer(a, b *Solution) *Solution {
	switch {
	case a == nil || a.Reason == nil || b.Reason == nil:
		return b
	case b.Reason.Constraint == NoCandidates:
		return a
	case a.Reason.Constraint == NoCandidates:
		return b
	}
	x, y := a.Reason, b.Reason
	r := &Reason{
		Constraint: x.Constraint,
		LeastHours: lesser(x.LeastHours, y.LeastHours), LeastUSD: lesser(x.LeastUSD, y.LeastUSD),
		LeastKgCO2: lesser(x.LeastKgCO2, y.LeastKgCO2),
	}
	switch {
	case r.same(x):
		return a
	case r.same(y) && x.Constraint == y.Constraint:
		return b
	case x.Constraint == y.Constraint:
	case x.Constraint == CarbonCap || y.Constraint == CarbonCap:
		r.Constraint = CarbonCap
	default:
		r.Constraint = DeadlineAndBudget
	}
	return &Solution{Status: Infeasible, Reason: r}
}

// same says whether two reasons ask for the same.
func (r *Reason) same(as *Reason) bool {
	return r.Constraint == as.Constraint && r.LeastHours == as.LeastHours && r.LeastUSD == as.LeastUSD &&
		r.LeastKgCO2 == as.LeastKgCO2
}

// lesser is the lesser of two amounts of which 0 is none.
func lesser(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// lacking says in words what a reason of lower bounds asks for.
func (m *Model) lacking(r *Reason) string {
	hours, dollars := words.Span(r.LeastHours, math.Round), words.USD(r.LeastUSD)
	late := r.LeastHours > 0 && m.DeadlineHours != nil
	dear := r.LeastUSD > 0 && m.BudgetUSD != nil
	switch {
	case r.Constraint == CarbonCap && r.LeastKgCO2 > 0 && m.CarbonCapKg != nil:
		return fmt.Sprintf("the carbon cap is %s kg but plans emit at least %s kg", words.USD(*m.CarbonCapKg),
			words.USD(r.LeastKgCO2))
	case late && dear:
		return fmt.Sprintf("the deadline is %s and the budget %s USD: within the budget the fastest plan takes "+
			"at least %s, within the deadline the cheapest costs at least %s USD",
			words.Span(*m.DeadlineHours, math.Round), words.USD(*m.BudgetUSD), hours, dollars)
	case late:
		return fmt.Sprintf("the deadline is %s but the fastest plan takes at least %s",
			words.Span(*m.DeadlineHours, math.Round), hours)
	case dear:
		return fmt.Sprintf("the budget is %s USD but the cheapest plan costs at least %s USD", words.USD(*m.BudgetUSD),
			dollars)
	}
	return fmt.Sprintf("the %s cannot be kept", r.Constraint)
}

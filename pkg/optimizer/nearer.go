package optimizer

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// combineReasons combines the reasons of two infeasible parts of a model. Relaxing a limit helps the model if it
// makes either part feasible. So the lower bound of that limit is the smaller one of the parts that have a bound. If
// neither part's message fits the result, the message is empty and lacking fills it in.
func combineReasons(a, b *Solution) *Solution {
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
		LeastHours: minNonZero(x.LeastHours, y.LeastHours), LeastUSD: minNonZero(x.LeastUSD, y.LeastUSD),
		LeastKgCO2: minNonZero(x.LeastKgCO2, y.LeastKgCO2),
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

// same reports whether two reasons suggest the same relaxation.
func (r *Reason) same(as *Reason) bool {
	return r.Constraint == as.Constraint && r.LeastHours == as.LeastHours && r.LeastUSD == as.LeastUSD &&
		r.LeastKgCO2 == as.LeastKgCO2
}

// minNonZero returns the smaller of two amounts, where 0 means none.
func minNonZero(a, b float64) float64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// describeReason returns a message for a reason with lower bounds.
func (m *Model) describeReason(r *Reason) string {
	hours, dollars := text.Span(r.LeastHours, math.Round), text.USD(r.LeastUSD)
	late := r.LeastHours > 0 && m.DeadlineHours != nil
	dear := r.LeastUSD > 0 && m.BudgetUSD != nil
	switch {
	case r.Constraint == CarbonCap && r.LeastKgCO2 > 0 && m.CarbonCapKg != nil:
		return fmt.Sprintf("the carbon cap is %s kg but plans emit at least %s kg", text.USD(*m.CarbonCapKg),
			text.USD(r.LeastKgCO2))
	case late && dear:
		return fmt.Sprintf("the deadline is %s and the budget %s USD: within the budget the fastest plan takes "+
			"at least %s, within the deadline the cheapest costs at least %s USD",
			text.Span(*m.DeadlineHours, math.Round), text.USD(*m.BudgetUSD), hours, dollars)
	case late:
		return fmt.Sprintf("the deadline is %s but the fastest plan takes at least %s",
			text.Span(*m.DeadlineHours, math.Round), hours)
	case dear:
		return fmt.Sprintf("the budget is %s USD but the cheapest plan costs at least %s USD", text.USD(*m.BudgetUSD),
			dollars)
	}
	return fmt.Sprintf("the %s cannot be kept", r.Constraint)
}

package optimizer

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// Constraint is the kind of constraint that makes a model infeasible.
type Constraint string

const (
	// NoCandidates means that some tasks have no candidates, or no common site.
	NoCandidates Constraint = "candidates"
	// Deadline means that even the fastest plan is too slow.
	Deadline Constraint = "deadline"
	// Budget means that even the cheapest plan costs too much.
	Budget Constraint = "budget"
	// DeadlineAndBudget means that either limit can be met, but not both.
	DeadlineAndBudget Constraint = "deadline and budget"
	// CarbonCap means that the cap on emissions cannot be met, or not together with the other limits.
	CarbonCap Constraint = "carbon cap"
)

// Reason names the constraint to relax, and the value to which to relax it, to make an infeasible model feasible.
type Reason struct {
	Constraint Constraint `json:"constraint"`
	// Tasks are the ids of the tasks without candidates, or without a common site, in order.
	Tasks []string `json:"tasks,omitempty"`
	// LeastHours is a lower bound of the deadline that would make the model feasible with everything else unchanged.
	// It is 0 if no deadline would, or if the deadline is not the problem.
	LeastHours float64 `json:"leastHours,omitempty"`
	// LeastUSD is the same for the budget.
	LeastUSD float64 `json:"leastUSD,omitempty"`
	// LeastKgCO2 is the same for the carbon cap.
	LeastKgCO2 float64 `json:"leastKgCO2,omitempty"`
	// Exact means that a plan attains LeastHours, LeastUSD and LeastKgCO2, to a relative 1e-9. Otherwise they are
	// only lower bounds.
	Exact bool `json:"exact,omitempty"`
}

// overBudget returns the solution if even the cheapest plan exceeds the budget.
func (s *solver) overBudget(cheap answer) *Solution {
	budget := *s.inst.model.BudgetUSD
	least := cheap.lower
	if cheap.proven {
		least = s.inst.Cost(cheap.plan)
	}
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the budget is %s USD but the cheapest plan costs %s%s USD: raise it by %s USD",
			text.USD(budget), orMore(cheap), text.USD(least), text.USD(least-budget)),
		Reason: &Reason{Constraint: Budget, LeastUSD: least, Exact: cheap.proven},
	}
}

// pastDeadline returns the solution if even the fastest plan misses the deadline.
func (s *solver) pastDeadline(fast answer) *Solution {
	deadline := *s.inst.model.DeadlineHours
	least := fast.lower
	if fast.proven {
		least = s.inst.Makespan(fast.plan)
	}
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the deadline is %s but the fastest plan takes %s%s: extend it by %s",
			text.Span(deadline, math.Round), orMore(fast), text.Span(least, math.Round),
			text.Span(least-deadline, math.Ceil)),
		Reason: &Reason{Constraint: Deadline, LeastHours: least, Exact: fast.proven},
	}
}

// overBoth returns the solution if the deadline and the budget can each be met but not both. inTime is the cheapest
// plan within the deadline and inBudget the fastest within the budget; a nil one is computed here.
func (s *solver) overBoth(cheap, fast answer, inTime, inBudget *answer) *Solution {
	m := s.inst.model
	if inTime == nil {
		a := s.bounded(false, *m.DeadlineHours, cheap, fast)
		inTime = &a
	}
	if inBudget == nil {
		a := s.bounded(true, *m.BudgetUSD, cheap, fast)
		inBudget = &a
	}
	least, hours := inTime.lower, inBudget.lower
	if inTime.proven {
		least = s.inst.Cost(inTime.plan)
	}
	if inBudget.proven {
		hours = s.inst.Makespan(inBudget.plan)
	}
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the deadline is %s and the budget %s USD: "+
			"within the budget the fastest plan takes %s%s, within the deadline the cheapest costs %s%s USD",
			text.Span(*m.DeadlineHours, math.Round), text.USD(*m.BudgetUSD), orMore(*inBudget),
			text.Span(hours, math.Round),
			orMore(*inTime), text.USD(least)),
		Reason: &Reason{
			Constraint: DeadlineAndBudget, LeastHours: hours, LeastUSD: least, Exact: inTime.proven && inBudget.proven,
		},
	}
}

func orMore(a answer) string {
	if a.proven {
		return ""
	}
	return "at least "
}

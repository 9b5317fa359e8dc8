package optimizer

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/words"
)

// Constraint names what makes a model infeasible.
type Constraint string

const (
	// NoCandidates means that some tasks have no offer at all.
	NoCandidates Constraint = "candidates"
	// Deadline means that even the fastest plan is too slow.
	Deadline Constraint = "deadline"
	// Budget means that even the cheapest plan costs too much.
	Budget Constraint = "budget"
	// DeadlineAndBudget means that either bound could be kept, but not both.
	DeadlineAndBudget Constraint = "deadline and budget"
	// CarbonCap means that the cap on emissions cannot be kept, or not together
	// with the other bounds.
	CarbonCap Constraint = "carbon cap"
)

// Reason says which constraint to relax for an infeasible model to have a plan,
// and to what.
type Reason struct {
	Constraint Constraint `json:"constraint"`
	// Tasks are the ids of the tasks without candidates, in order.
	Tasks []string `json:"tasks,omitempty"`
	// LeastHours bounds from below the deadline that would do, all else
	// unchanged; 0 where no deadline would do or the deadline is not at fault.
	LeastHours float64 `json:"leastHours,omitempty"`
	// LeastUSD bounds from below the budget that would do, all else unchanged;
	// 0 where no budget would do or the budget is not at fault.
	LeastUSD float64 `json:"leastUSD,omitempty"`
	// LeastKgCO2 bounds from below the carbon cap that would do, all else
	// unchanged; 0 where the cap is not at fault.
	LeastKgCO2 float64 `json:"leastKgCO2,omitempty"`
	// Exact means that LeastHours, LeastUSD and LeastKgCO2 are attained by a plan, to a
	// relative 1e-9, not mere lower bounds.
	Exact bool `json:"exact,omitempty"`
}

// overBudget is the answer when even the cheapest plan breaks the budget.
func (s *solver) overBudget(cheap answer) *Solution {
	budget := *s.inst.model.BudgetUSD
	least := cheap.lower
	if cheap.proven {
		least = s.inst.Cost(cheap.plan)
	}
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the budget is %s USD but the cheapest plan costs %s%s USD: raise it by %s USD",
			words.USD(budget), orMore(cheap), words.USD(least), words.USD(least-budget)),
		Reason: &Reason{Constraint: Budget, LeastUSD: least, Exact: cheap.proven},
	}
}

// pastDeadline is the answer when even the fastest plan misses the deadline.
func (s *solver) pastDeadline(fast answer) *Solution {
	deadline := *s.inst.model.DeadlineHours
	least := fast.lower
	if fast.proven {
		least = s.inst.Makespan(fast.plan)
	}
	return &Solution{
		Status: Infeasible,
		Message: fmt.Sprintf("the deadline is %s but the fastest plan takes %s%s: extend it by %s",
			words.Span(deadline, math.Round), orMore(fast), words.Span(least, math.Round),
			words.Span(least-deadline, math.Ceil)),
		Reason: &Reason{Constraint: Deadline, LeastHours: least, Exact: fast.proven},
	}
}

// overBoth is the answer when the deadline and the budget can be kept one at a
// time only. inTime is the cheapest plan within the deadline and inBudget the
// fastest within the budget; whichever is nil is worked out here.
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
			words.Span(*m.DeadlineHours, math.Round), words.USD(*m.BudgetUSD), orMore(*inBudget),
			words.Span(hours, math.Round),
			orMore(*inTime), words.USD(least)),
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

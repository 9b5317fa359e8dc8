package optimizer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
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
			usd(budget), orMore(cheap), usd(least), usd(least-budget)),
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
			span(deadline, math.Round), orMore(fast), span(least, math.Round), span(least-deadline, math.Ceil)),
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
			span(*m.DeadlineHours, math.Round), usd(*m.BudgetUSD), orMore(*inBudget), span(hours, math.Round),
			orMore(*inTime), usd(least)),
		Reason: &Reason{
			Constraint: DeadlineAndBudget, LeastHours: hours, LeastUSD: least, Exact: inTime.proven && inBudget.proven,
		},
	}
}

// span writes hours as a job file does, "1h36m", in whole seconds. What is less than one, or more than a duration
// holds, it writes as a number of hours.
func span(hours float64, whole func(float64) float64) string {
	const most = float64(math.MaxInt64 / int64(time.Hour))
	seconds := math.Round(hours*3600*1e6) / 1e6 // without what arithmetic left over
	if seconds < 1 || hours >= most {
		return fmt.Sprintf("%.6g h", hours)
	}
	s := (time.Duration(whole(seconds)) * time.Second).String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, none) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// usd writes an amount with six digits that count, and without an exponent.
func usd(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil { // of a number that was just written: cannot be
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

func orMore(a answer) string {
	if a.proven {
		return ""
	}
	return "at least "
}

package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// ReserveMonth reserves money of a queue's current month for an attempt.
func ReserveMonth(q *apitypes.Queue, usd float64, now time.Time) {
	q.Month = q.Month.At(now)
	q.Month.ReservedUSD += usd
}

// SettleMonth books the cost of an attempt, and releases the money that was reserved for it. It must be called after
// Running was updated: a queue in which nothing runs has nothing reserved.
func SettleMonth(q *apitypes.Queue, usd, reserved float64, now time.Time) {
	q.Month = q.Month.At(now)
	q.Month.SpentUSD += usd
	q.Month.ReservedUSD = max(q.Month.ReservedUSD-reserved, 0)
	if q.Running == 0 {
		q.Month.ReservedUSD = 0 // remove rounding errors
	}
}

// Purse is the monthly budget of a queue, with the amounts that the queue and those below it have spent and reserved.
type Purse struct {
	Queue                       string
	MostUSD, SpentUSD, AsideUSD float64
	Of                          apitypes.Month
}

// LeftUSD returns the amount that is neither spent nor reserved. It is negative if the budget was lowered.
func (p Purse) LeftUSD() float64 { return p.MostUSD - p.SpentUSD - p.AsideUSD }

// Required returns the amount that must be left to start something with an expected cost, for which full must be
// reserved. It is full, or only the expected cost if the whole budget is less than full.
func (p Purse) Required(expected, full float64) float64 {
	if full > p.MostUSD {
		return expected
	}
	return max(full, expected)
}

// Describe returns a text with the remaining amount and the end of the month.
func (p Purse) Describe() string {
	return fmt.Sprintf("queue %s has %s USD left of its budget of %s USD for %s (%s spent, %s reserved "+
		"for running tasks); the month ends at "+
		"%s", p.Queue, readable.USD(max(p.LeftUSD(), 0)), readable.USD(p.MostUSD), p.Of.Of,
		readable.USD(p.SpentUSD), readable.USD(p.AsideUSD), p.Of.Ends().Format(time.RFC3339))
}

// Purses returns the monthly budgets that pay for a queue's jobs: the queue's own, and those of the queues above it.
// tree has all of these and the queues below them, always in the same order, because floating-point sums depend on
// the order.
func Purses(tree []*apitypes.Queue, name string, now time.Time) (all []Purse) {
	for range MaxTree {
		i := slices.IndexFunc(tree, func(q *apitypes.Queue) bool { return q.Name == name })
		if i < 0 {
			return all
		}
		q := tree[i]
		if most := q.Max[apitypes.USDPerMonth]; most > 0 {
			sum := monthOf(tree, q, now, 0)
			all = append(all, Purse{q.Name, most, sum.SpentUSD, sum.ReservedUSD, sum})
		}
		name = q.Parent
	}
	return all
}

// Monthly reports whether any of the queues has a monthly budget.
func Monthly(tree []*apitypes.Queue) bool {
	return slices.ContainsFunc(tree, func(q *apitypes.Queue) bool { return q.Max[apitypes.USDPerMonth] > 0 })
}

// monthOf returns the month of a queue, including all queues below it.
func monthOf(tree []*apitypes.Queue, q *apitypes.Queue, now time.Time, depth int) apitypes.Month {
	sum := q.Month.At(now)
	if !q.Inner || depth > MaxTree {
		return sum
	}
	for _, x := range tree {
		if x.Parent != q.Name || x == q {
			continue
		}
		m := monthOf(tree, x, now, depth+1)
		if m.Of > sum.Of { // a process whose clock is ahead has settled it
			sum.Of, sum.SpentUSD = m.Of, 0
		}
		if m.Of == sum.Of {
			sum.SpentUSD += m.SpentUSD
		}
		sum.ReservedUSD += m.ReservedUSD
	}
	return sum
}

// Months updates the month of queues, including the amounts that the queues below them have spent and reserved.
func Months(queues []apitypes.Queue, now time.Time) {
	tree := Pointers(queues)
	sums := make([]apitypes.Month, len(queues))
	for i, q := range tree {
		sums[i] = monthOf(tree, q, now, 0)
	}
	for i, q := range tree {
		q.Month = q.Month.At(now)
		if below := sums[i].SpentUSD + sums[i].ReservedUSD - q.Month.SpentUSD - q.Month.ReservedUSD; below > CentsEps {
			q.Month.BelowUSD = below
		}
		if aside := sums[i].ReservedUSD - q.Month.ReservedUSD; aside > CentsEps {
			q.Month.AsideBelowUSD = aside
		}
	}
}

package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// ReserveMonth sets so much aside for an attempt of the queue.
func ReserveMonth(q *apitypes.Queue, usd float64, now time.Time) {
	q.Month = q.Month.At(now)
	q.Month.ReservedUSD += usd
}

// SettleMonth books what an attempt has cost, and gives back what was set aside for it. It comes after what runs was
// counted: of a queue of which nothing runs nothing is set aside.
func SettleMonth(q *apitypes.Queue, usd, reserved float64, now time.Time) {
	q.Month = q.Month.At(now)
	q.Month.SpentUSD += usd
	q.Month.ReservedUSD = max(q.Month.ReservedUSD-reserved, 0)
	if q.Running == 0 {
		q.Month.ReservedUSD = 0 // what rounding left
	}
}

// Purse is a month's budget of a queue, with what was spent and is set aside of it there and below.
type Purse struct {
	Queue                       string
	MostUSD, SpentUSD, AsideUSD float64
	Of                          apitypes.Month
}

// LeftUSD is what is neither spent nor set aside; less than nothing where the budget was lowered.
func (p Purse) LeftUSD() float64 { return p.MostUSD - p.SpentUSD - p.AsideUSD }

// Asks is what has to be left for something to begin that is expected to cost so much, and for which full is set aside:
// all of that, unless the whole budget is less.
func (p Purse) Asks(expected, full float64) float64 {
	if full > p.MostUSD {
		return expected
	}
	return max(full, expected)
}

// Tell says what is left of it, and until when.
func (p Purse) Tell() string {
	return fmt.Sprintf("queue %s has %s USD left of the %s USD that its jobs may cost in %s (%s spent, %s set aside "+
		"for what runs); the month ends at %s", p.Queue, TellUSD(max(p.LeftUSD(), 0)), TellUSD(p.MostUSD), p.Of.Of,
		TellUSD(p.SpentUSD), TellUSD(p.AsideUSD), p.Of.Ends().Format(time.RFC3339))
}

// Purses are the month's budgets that a queue's jobs are paid from: its own, and those of the queues above it. tree has
// all of these and what is below them, in an order that is always the same, as sums depend on it.
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

// Monthly says whether any of some queues has a month's budget.
func Monthly(tree []*apitypes.Queue) bool {
	return slices.ContainsFunc(tree, func(q *apitypes.Queue) bool { return q.Max[apitypes.USDPerMonth] > 0 })
}

// monthOf is the month of a queue with all below it.
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
		if m.Of > sum.Of { // what was settled there last was told by a clock that is ahead
			sum.Of, sum.SpentUSD = m.Of, 0
		}
		if m.Of == sum.Of {
			sum.SpentUSD += m.SpentUSD
		}
		sum.ReservedUSD += m.ReservedUSD
	}
	return sum
}

// Months has queues say what their month is now, and what those below them have spent and set aside in it.
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

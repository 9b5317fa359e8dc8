package record

import (
	"fmt"
	"slices"
	"time"
)

// USDPerMonth is, among the amounts that a queue may have at most, what its jobs may cost in a calendar month (UTC). It
// is no resource that is held: what is spent of it comes back when the month turns.
const USDPerMonth = "usdPerMonth"

// Month is what the jobs of a queue, without those of queues below it, have cost in a month, and what is set aside for
// those of their attempts that run. An attempt is booked in the month in which it is settled.
type Month struct {
	Of       string  `json:"of,omitempty" doc:"The month, YYYY-MM, in UTC"`
	SpentUSD float64 `json:"spentUSD,omitempty" doc:"What attempts have cost that were settled in it, USD"`
	// ReservedUSD is of attempts that were admitted while a month's budget was in force (Attempt.Monthly).
	ReservedUSD float64 `json:"reservedUSD,omitempty" doc:"What is set aside of a month's budget for attempts that run, USD"`
	// BelowUSD and AsideBelowUSD are computed where queues are shown.
	BelowUSD      float64 `json:"belowUSD,omitempty" doc:"Spent and set aside in it by the queues below, USD"`
	AsideBelowUSD float64 `json:"asideBelowUSD,omitempty" doc:"Of that, what is set aside, USD"`
}

// monthLayout is how a month is written. Texts of it compare as the months do.
const monthLayout = "2006-01"

// At is the month at a time: a new one begins with what is set aside in the one before. It never goes back, as a
// decision may be committed minutes after the moment it was made for.
func (m Month) At(now time.Time) Month {
	if of := now.UTC().Format(monthLayout); of > m.Of {
		m.Of, m.SpentUSD = of, 0
	}
	return m
}

// Ends is when the next month begins.
func (m Month) Ends() time.Time {
	begins, err := time.Parse(monthLayout, m.Of)
	if err != nil {
		return time.Time{}
	}
	return begins.AddDate(0, 1, 0)
}

// ReserveMonth sets so much aside for an attempt of the queue.
func ReserveMonth(q *Queue, usd float64, now time.Time) {
	q.Month = q.Month.At(now)
	q.Month.ReservedUSD += usd
}

// SettleMonth books what an attempt has cost, and gives back what was set aside for it. It comes after what runs was
// counted: of a queue of which nothing runs nothing is set aside.
func SettleMonth(q *Queue, usd, reserved float64, now time.Time) {
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
	Of                          Month
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
func Purses(tree []*Queue, name string, now time.Time) (all []Purse) {
	for range MaxTree {
		i := slices.IndexFunc(tree, func(q *Queue) bool { return q.Name == name })
		if i < 0 {
			return all
		}
		q := tree[i]
		if most := q.Max[USDPerMonth]; most > 0 {
			sum := monthOf(tree, q, now, 0)
			all = append(all, Purse{q.Name, most, sum.SpentUSD, sum.ReservedUSD, sum})
		}
		name = q.Parent
	}
	return all
}

// Monthly says whether any of some queues has a month's budget.
func Monthly(tree []*Queue) bool {
	return slices.ContainsFunc(tree, func(q *Queue) bool { return q.Max[USDPerMonth] > 0 })
}

// monthOf is the month of a queue with all below it.
func monthOf(tree []*Queue, q *Queue, now time.Time, depth int) Month {
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
func Months(queues []Queue, now time.Time) {
	tree := Pointers(queues)
	sums := make([]Month, len(queues))
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

package check

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// monthChecker computes the amount that queues have spent in a month, independent of their records.
type monthChecker struct {
	spent   map[string]float64 // by queue, in the month of its record
	most    map[string]float64 // budgets, as they were before they were lifted
	ever    map[string]bool    // queues that have had a budget
	settled []attemptKey       // by the current transaction
	changed []string           // queues whose record it writes
	pledged []string           // queues for which it sets more aside
}

func newMonthChecker() monthChecker {
	return monthChecker{spent: map[string]float64{}, ever: map[string]bool{}, most: map[string]float64{}}
}

// paid reports whether a queue or an ancestor of it has had a budget. Tasks there may wait for money.
func (m *monthChecker) paid(queue string, queues map[string]apitypes.Queue) bool {
	for range record.MaxTree {
		if m.ever[queue] {
			return true
		}
		queue = queues[queue].Parent
	}
	return false
}

// monthLag is the maximum time between a transaction's decision and its commit.
const monthLag = 6 * time.Hour

// monthRecord checks the month of a queue.
func (c *Checker) monthRecord(old, q apitypes.Queue) {
	m := &c.month
	m.ever[q.Name] = m.ever[q.Name] || q.Max[apitypes.USDPerMonth] > 0
	if most := q.Max[apitypes.USDPerMonth]; most > 0 {
		m.most[q.Name] = most
	}
	m.changed = append(m.changed, q.Name)
	if q.Month.ReservedUSD > old.Month.ReservedUSD+Rounding {
		m.pledged = append(m.pledged, q.Name)
	}
	switch {
	case q.Month.Of == old.Month.Of:
		return
	case q.Month.Of < old.Month.Of:
		c.Violatef(InvMonth, "queue %s goes back from %s to %s", q.Name, old.Month.Of, q.Month.Of)
	case old.Month.Of != "":
		c.Count("a month changes")
	}
	delete(m.spent, q.Name)
	if now, before := (apitypes.Month{}).At(c.Now), (apitypes.Month{}).At(c.Now.Add(-monthLag)); q.Month.Of > now.Of ||
		q.Month.Of < before.Of {
		c.Violatef(InvMonth, "queue %s is in %s at %v", q.Name, q.Month.Of, c.Now)
	}
}

// checkMonths compares the months of queues with their attempts, and, if more is reserved, with their budgets. Lowering
// a budget below the spent amount takes nothing away.
func (c *Checker) checkMonths() {
	m := &c.month
	for _, k := range m.settled {
		s := c.state(k.job)
		m.spent[s.Record.Queue] += s.attempt(k).USD
	}
	for _, name := range m.changed {
		q := c.queues[name]
		if aside := c.asideOf(name); math.Abs(q.Month.ReservedUSD-aside) > Rounding {
			c.Violatef(InvMonth, "queue %s counts %.6f USD as reserved, but its attempts %.6f", name,
				q.Month.ReservedUSD, aside)
		}
		if math.Abs(q.Month.SpentUSD-m.spent[name]) > Rounding {
			c.Violatef(InvMonth, "queue %s counts %.6f USD as spent in %s, but its attempts %.6f", name,
				q.Month.SpentUSD, q.Month.Of, m.spent[name])
		}
	}
	for _, name := range m.pledged {
		month := c.queues[name].Month.Of
		for range record.MaxTree {
			q, ok := c.queues[name]
			if !ok {
				break
			}
			if most := q.Max[apitypes.USDPerMonth]; most > 0 {
				c.Count("a month's budget is kept")
				if sum := c.monthOf(q, month); sum > most+Rounding {
					c.Violatef(InvMonth, "queue %s may cost %.6f USD in %s, and %.6f are spent and reserved", name,
						most, month, sum)
				}
			}
			name = q.Parent
		}
	}
	m.settled, m.changed, m.pledged = m.settled[:0], m.changed[:0], m.pledged[:0]
}

// monthOf returns the spent and the reserved amount of a queue and its descendants in a month.
func (c *Checker) monthOf(q apitypes.Queue, month string) float64 {
	sum := c.asideOf(q.Name)
	if q.Month.Of == month {
		sum += c.month.spent[q.Name]
	}
	for _, x := range c.queues {
		if x.Parent == q.Name && x.Name != q.Name {
			sum += c.monthOf(x, month)
		}
	}
	return sum
}

// asideOf returns the amount of a month's budget that is reserved for the unsettled attempts of a queue.
func (c *Checker) asideOf(queue string) (sum float64) {
	for _, s := range c.order {
		if s.Record.Queue != queue {
			continue
		}
		for _, a := range s.order {
			if a.settled || !a.Monthly {
				continue
			}
			if cl, ok := s.clusters[a.cluster]; ok {
				sum += cl.ReservedUSD
			} else {
				sum += a.ReservedUSD
			}
		}
	}
	return sum
}

// plenty is a multiple of the maximum cost of a task's machines. A budget of that amount suffices, whatever data are
// moved.
const plenty = 2.5

// checkPaid checks that no task was admitted with too little money to buy machines. Such a task has to wait.
func (c *Checker) checkPaid(s *Job, a *attemptState) {
	if a.Outcome != apitypes.OutcomeBudget || !a.Monthly || !a.Launched.IsZero() || s.Record.BudgetUSD > 0 {
		return
	}
	hours := record.Hours(s.user.Spec.Tasks[a.task].Time.Default + c.cfg.Overhead)
	expected := a.Offer.USDPerHour * float64(a.Nodes) * hours
	if a.ReservedUSD >= expected {
		return // a launch that hung for longer than its time
	}
	want := plenty * expected
	for name := s.Record.Queue; ; name = c.queues[name].Parent {
		if most, ok := c.month.most[name]; ok && most < want {
			return // the whole budget is less than may be needed
		}
		if c.queues[name].Parent == "" {
			break
		}
	}
	c.Violatef(InvMonth, "attempt %v was admitted with %.6f USD, too little to buy anything", a.attemptKey,
		a.ReservedUSD)
}

package check

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// monthChecker knows what queues have spent in a month, whatever their records say.
type monthChecker struct {
	spent   map[string]float64 // by queue, in the month that its record is of
	most    map[string]float64 // budgets, as they were before they were lifted
	ever    map[string]bool    // queues that have had a budget
	settled []attemptKey       // in the transaction at hand
	changed []string           // queues whose record it writes
	pledged []string           // of which it sets more aside
}

func newMonthChecker() monthChecker {
	return monthChecker{spent: map[string]float64{}, ever: map[string]bool{}, most: map[string]float64{}}
}

// paid says whether a queue, or one above it, has had a budget: what waits there may wait for money.
func (m *monthChecker) paid(queue string, queues map[string]apitypes.Queue) bool {
	for range record.MaxTree {
		if m.ever[queue] {
			return true
		}
		queue = queues[queue].Parent
	}
	return false
}

// monthLag is how long after the moment that it was decided for a transaction may be committed.
const monthLag = 6 * time.Hour

// monthRecord notes what a queue says of its month.
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
		c.Count("a month turns")
	}
	delete(m.spent, q.Name)
	if now, before := (apitypes.Month{}).At(c.Now), (apitypes.Month{}).At(c.Now.Add(-monthLag)); q.Month.Of > now.Of ||
		q.Month.Of < before.Of {
		c.Violatef(InvMonth, "queue %s is in %s at %v", q.Name, q.Month.Of, c.Now)
	}
}

// checkMonths compares what queues say of their month with their attempts, and with their budgets those that set more
// aside. Budgets that are lowered below what is spent take nothing away.
func (c *Checker) checkMonths() {
	m := &c.month
	for _, k := range m.settled {
		s := c.state(k.job)
		m.spent[s.Record.Queue] += s.attempt(k).USD
	}
	for _, name := range m.changed {
		q := c.queues[name]
		if aside := c.asideOf(name); math.Abs(q.Month.ReservedUSD-aside) > Rounding {
			c.Violatef(InvMonth, "queue %s says that %.6f USD are set aside, its attempts %.6f", name,
				q.Month.ReservedUSD, aside)
		}
		if math.Abs(q.Month.SpentUSD-m.spent[name]) > Rounding {
			c.Violatef(InvMonth, "queue %s says that it spent %.6f USD in %s, its attempts %.6f", name,
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
					c.Violatef(InvMonth, "queue %s may cost %.6f USD in %s, and %.6f are spent and set aside", name,
						most, month, sum)
				}
			}
			name = q.Parent
		}
	}
	m.settled, m.changed, m.pledged = m.settled[:0], m.changed[:0], m.pledged[:0]
}

// monthOf is what a queue, and those below it, have spent in a month and set aside.
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

// asideOf is what is set aside of a month's budget for the attempts of a queue that are not settled.
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

// plenty is how many times what a task's machines may cost a budget has to be for it to be enough, whatever data is
// moved.
const plenty = 2.5

// checkPaid checks that nothing was admitted with so little money that it could not be bought: what is short waits.
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
			return // all of it is less than may be needed
		}
		if c.queues[name].Parent == "" {
			break
		}
	}
	c.Violatef(InvMonth, "attempt %v was admitted with %.6f USD, too little to buy anything", a.attemptKey,
		a.ReservedUSD)
}

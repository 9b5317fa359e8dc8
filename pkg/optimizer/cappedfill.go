package optimizer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// fill uses the remaining room below the limit to improve a plan. If many tasks are alike, the optimum at a price
// uses either all of the limit or none of it. fill closes that gap one task at a time, best trade first (as in the
// greedy heuristic for the knapsack problem), and offers the result.
func (c *cappedSearch) fill(light []int) {
	if light == nil || c.byTime {
		return
	}
	p := slices.Clone(light)
	room := search.Beyond(c.limit) - c.sum(c.bound, p)
	changed := false
	for _, v := range c.trades(p) {
		gain, takes := c.trade(p, v.task, v.cand)
		if gain > 0 && takes < room {
			p[c.s.inst.Order[v.task]] = v.cand
			room -= takes
			changed = true
		}
	}
	if changed {
		c.offer(p)
	}
}

// trade is another candidate for a canonical task, with its effects.
type trade struct {
	task        int32
	cand        int
	gain, takes float64
}

// trades lists the changes of a single task that lower the minimised sum, best first. With a deadline, it considers
// only candidates at the same place that take no longer.
func (c *cappedSearch) trades(p []int) []trade {
	var list []trade
	for t, i := range c.s.inst.Order {
		cands := c.s.m.Tasks[i].Candidates
		now := &cands[p[i]]
		c.s.meter.Spend(len(cands)) // even if the search has ended: this is short and worth it
		for k := range cands {
			if c.s.m.DeadlineHours != nil && (cands[k].Place != now.Place || cands[k].Hours > now.Hours) {
				continue
			}
			v := trade{task: int32(t), cand: k} // #nosec G115 -- at most MaxTasks
			if v.gain, v.takes = c.trade(p, v.task, k); v.gain > 0 {
				list = append(list, v)
			}
		}
	}
	slices.SortFunc(list, func(a, b trade) int {
		// by gain divided by cost (takes); trades that cost nothing come first
		return cmp.Or(
			cmp.Compare(b.gain*max(a.takes, 0), a.gain*max(b.takes, 0)), cmp.Compare(b.gain, a.gain),
			cmp.Compare(a.task, b.task), strings.Compare(c.id(a), c.id(b)))
	})
	return list
}

func (c *cappedSearch) id(v trade) string {
	return c.s.m.Tasks[c.s.inst.Order[v.task]].Candidates[v.cand].ID
}

// trade returns by how much candidate k for canonical task t lowers the minimised sum and raises the limited sum,
// with everything else in the plan unchanged.
func (c *cappedSearch) trade(p []int, t int32, k int) (gain, takes float64) {
	inst, m := c.s.inst, c.s.m
	i := inst.Order[t]
	from, to := &m.Tasks[i].Candidates[p[i]], &m.Tasks[i].Candidates[k]
	usd := to.USD - from.USD
	if to.Place != from.Place {
		at := func(t int32) int { i := inst.Order[t]; return m.Tasks[i].Candidates[p[i]].Place }
		for _, e := range inst.Out.Of(t) {
			l := &inst.Edges[e]
			q := at(l.To)
			usd += l.SumGiB * (m.USDPerGiB[to.Place][q] - m.USDPerGiB[from.Place][q])
		}
		for _, e := range inst.In.Of(t) {
			l := &inst.Edges[e]
			q := at(l.From)
			usd += l.SumGiB * (m.USDPerGiB[q][to.Place] - m.USDPerGiB[q][from.Place])
		}
	}
	kg := to.KgCO2 - from.KgCO2
	return -c.minimise.of(usd, kg), c.bound.of(usd, kg)
}

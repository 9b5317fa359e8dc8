package optimizer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// fill improves a plan that keeps the bound by what the bound leaves over: the
// optimum at a price keeps all of it or nothing where many tasks are alike, and
// the room between is filled one task at a time, the best trade first (as in the
// greedy heuristic of the knapsack problem). What it finds is offered.
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

// trade is another candidate for one task, by canonical task.
type trade struct {
	task        int32
	cand        int
	gain, takes float64
}

// trades lists the changes of one task that lower what is minimised, the best
// first. With a deadline only those at the same place that take no longer.
func (c *cappedSearch) trades(p []int) []trade {
	var list []trade
	for t, i := range c.s.inst.Order {
		cands := c.s.m.Tasks[i].Candidates
		now := &cands[p[i]]
		c.s.meter.Spend(len(cands)) // even where the search is over: it is worth it, and soon done
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
		// by gain over what it takes; what takes nothing comes first
		return cmp.Or(
			cmp.Compare(b.gain*max(a.takes, 0), a.gain*max(b.takes, 0)), cmp.Compare(b.gain, a.gain),
			cmp.Compare(a.task, b.task), strings.Compare(c.id(a), c.id(b)))
	})
	return list
}

func (c *cappedSearch) id(v trade) string {
	return c.s.m.Tasks[c.s.inst.Order[v.task]].Candidates[v.cand].ID
}

// trade is what candidate k for canonical task t takes off what is minimised and
// adds to what is bounded, with everything else in the plan as it is.
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

package planner

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// This planner gives each share group one offer that can hold its largest task, with one to mostWorkers machines. The
// workers have the cost, and the members cost nothing. It plans no times within a machine. Some jobs with a deadline
// or a budget get a machine for each task instead.

// mostWorkers is the maximum number of machines of a group in a plan.
const mostWorkers = 3

// ListingGiB is the memory of a machine, in GiB.
func ListingGiB(l *weather.Listing) float64 { return memoryPerCPU * l.VCPU }

// memoryPerCPU is the memory of each machine for one vCPU, in GiB.
const memoryPerCPU = 4

// draw returns a number that depends only on the job and a name.
func (g *planning) draw(name string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, g.in.Job, "/", name)
	return h.Sum64() >> 8
}

// shares reports whether the tasks of the job share machines in its plans.
func (g *planning) shares() bool {
	limited := g.in.DeadlineHours != nil || g.in.BudgetUSD != nil
	return !limited || g.draw("shares")%2 == 0
}

// fleets plans the share groups. planned are the tasks that the other parts of the planner do not plan.
func (g *planning) fleets() (planned []bool) {
	planned = make([]bool, len(g.in.Spec.Tasks))
	if !g.in.Spec.HasWorkers() {
		return planned
	}
	g.on = make([]int32, len(planned))
	for i := range g.on {
		if g.on[i] = -1; g.in.Previous != nil && g.facts(i).Fixed && i < len(g.in.Previous.On) {
			g.on[i] = g.in.Previous.On[i]
		}
	}
	for i := g.in.Spec.Work(); i < len(planned); i++ {
		planned[i] = true
	}
	if !g.shares() {
		return planned
	}
	for group, members := range g.in.Spec.ShareGroups() {
		members = slices.DeleteFunc(members, func(i int) bool { return g.facts(i).Done || g.facts(i).Fixed })
		if len(members) > 0 {
			g.fleet(group, members)
		}
		for _, i := range members {
			planned[i] = true
		}
	}
	return planned
}

// fleet plans the machines of a group for the members that do not run yet.
func (g *planning) fleet(group int, members []int) {
	var workers []int
	for i := g.in.Spec.Work(); i < len(g.in.Spec.Tasks); i++ {
		if g.in.Spec.Tasks[i].Worker.Group == group {
			workers = append(workers, i)
		}
	}
	on, ok := g.machineFor(&g.in.Spec.Tasks[workers[0]], members)
	if !ok {
		g.message = fmt.Sprintf("task %s: no suitable offer for its shared machine is unblocked",
			g.in.Spec.Tasks[members[0]].Name)
		return
	}
	var work, longest time.Duration // of a machine with one vCPU, and of a member
	for _, i := range members {
		c := g.option(&g.in.Spec.Tasks[i], g.facts(i), on.Listing, on.spot)
		c.index, c.usd, c.safe = on.index, 0, c.run+g.overhead
		g.options[i] = []choice{c}
		cpus, _ := g.in.Spec.Tasks[i].Hold()
		work += time.Duration(float64(c.run) * cpus)
		longest = max(longest, c.run)
	}
	name := fmt.Sprint("fleet ", group, g.in.Now.Hour())                      // a later plan may have more or fewer
	count := min(1+int(g.draw(name)%mostWorkers), len(members), len(workers)) //nolint:gosec // small
	on.run = max(longest, time.Duration(float64(work)/on.VCPU/float64(count)))
	on.usd, on.safe = on.rate*(on.run+g.overhead).Hours(), on.run+g.overhead
	for n, i := range workers[:count] {
		if !g.facts(i).Fixed {
			g.options[i] = []choice{on}
		}
		for k := n; k < len(members); k += count {
			g.on[members[k]] = int32(i) //nolint:gosec // few tasks
		}
	}
}

// machineFor returns the offer for the machines of a group, of a machine or of a vCPU: the cheapest one that can hold
// its largest member.
func (g *planning) machineFor(worker *dag.Task, members []int) (best choice, ok bool) {
	var cpus, gib float64
	for _, i := range members {
		c, m := g.in.Spec.Tasks[i].Hold()
		cpus, gib = max(cpus, c), max(gib, m)
	}
	large := g.draw("large")%2 == 0
	var all []choice
	for n := range g.list {
		l := &g.list[n]
		if l.VCPU < cpus || ListingGiB(l) < gib || !Suits(worker, l) {
			continue
		}
		for _, spot := range []bool{false, true} {
			c := g.option(worker, g.facts(-1), l, spot)
			if c.index, c.usd = n, c.rate; large {
				c.usd /= l.VCPU
			}
			if allows(worker, c) && !g.blocked(c) {
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return best, false
	}
	return slices.MinFunc(all, func(a, b choice) int { return cmp.Compare(a.usd, b.usd) }), true
}

// keepPrevious keeps the planned offer of a task that holds machines, as the broker's planner does. If the task is lost
// while the plan is made, it can start again under that plan.
func (g *planning) keepPrevious(plan *record.Plan, i int, index map[string]int32) {
	if g.in.Previous == nil || !g.facts(i).Fixed || g.in.Previous.Of(i) == nil {
		return
	}
	was := g.in.Previous.Of(i)
	at, ok := index[was.ID]
	if !ok {
		at = int32(len(plan.Offers)) //nolint:gosec // a handful
		index[was.ID] = at
		plan.Offers = append(plan.Offers, *was)
	}
	plan.Choice[i] = at
}

// Package leastcost finds the plan of minimum cost without a deadline: domination of options, elimination and bounds
// on the cost network of each component, then hybrid best-first branch and bound.
//
// Elimination removes tasks exactly: one at a time if they have few neighbours (Reduce), and many together by bucket
// elimination (Order, Buckets). The values of removed tasks follow from those of the others.
package leastcost

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// costSolver minimises the total cost (equation 1) without a deadline.
type costSolver struct {
	inst  *problem.Instance
	meter *search.Meter
	best  problem.Plan
	// alive marks the options that can be in a plan better than the best. Of the options at one place only the
	// cheapest can.
	alive      []bool
	local      []int32
	im         *improver
	dom        *Domination
	thresholds search.Thresholds
}

// NewSolver returns a solver of inst; m counts its work.
func NewSolver(inst *problem.Instance, th search.Thresholds, m *search.Meter) *costSolver {
	c := &costSolver{
		inst: inst, meter: m, alive: make([]bool, len(inst.Opts)), local: make([]int32, inst.NTask()),
		im: newImprover(inst), thresholds: th,
	}
	for _, sp := range inst.Spans {
		c.alive[sp.Lo] = true
	}
	return c
}

// Solve returns the best plan found and a proven lower bound of the cost. proven reports whether the two agree to the
// promised precision. Every task of the instance must have an option.
func (c *costSolver) Solve(known []problem.Plan) (best problem.Plan, lower float64, proven bool) {
	inst, m := c.inst, c.meter
	// known plans come first: of equally good plans, the current one stays
	var starts []problem.Plan
	for _, p := range known {
		starts = append(starts, slices.Clone(p))
	}
	starts = append(starts, costStarts(inst)...)
	for _, p := range starts {
		c.im.improve(p, inst.Topo, m)
	}
	c.best = slices.Clone(starts[0])

	proven = true
	var open []*costSearch
	for _, tasks := range components(inst) {
		s := c.search(tasks, starts)
		if !s.Finished() {
			open = append(open, s)
			continue
		}
		lower += s.lower
	}
	// Every component has a plan and a bound now. The components that probably end soonest are searched first.
	slices.SortStableFunc(open, func(a, b *costSearch) int { return len(a.tasks) - len(b.tasks) })
	for _, s := range open {
		s.run()
		lower += s.lower
		proven = proven && s.Finished()
	}
	return c.best, lower, proven
}

// search prepares the search in one component and does everything that needs no branching.
func (c *costSolver) search(tasks []int32, starts []problem.Plan) *costSearch {
	s := &costSearch{
		inst: c.inst, tasks: tasks, meter: c.meter, im: c.im, effort: c.thresholds.Effort, best: c.best,
		upper: search.Inf,
	}
	for _, p := range starts {
		if x := c.inst.CostOf(p, tasks); x < s.upper {
			s.upper = x
			for _, t := range tasks {
				c.best[t] = p[t]
			}
		}
	}
	s.lower = c.leastSum(tasks)
	if s.lower >= s.cut() {
		s.lower = s.upper
		return s
	}
	c.filter(s)
	if c.entries(tasks) > c.thresholds.NetworkEntries {
		s.Push(s.lower, nil)
		s.tooLarge = true
		return s
	}
	s.start(network.New(c.inst, tasks, c.local, c.alive))
	return s
}

// leastSum returns the sum of the tasks' minimum costs.
func (c *costSolver) leastSum(tasks []int32) float64 {
	sum := 0.0
	for _, t := range tasks {
		least := search.Inf
		for _, o := range c.inst.Options(t) {
			least = min(least, o.USD)
		}
		sum += least
	}
	return sum
}

// entries returns an upper bound of the size of the tasks' network.
func (c *costSolver) entries(tasks []int32) int {
	total := 0
	for _, t := range tasks {
		total += c.inst.NPlace * (1 + 2*len(c.inst.Out.Of(t)))
	}
	return total
}

// filter excludes options of the search's tasks at no cost: options whose own cost exceeds the task's cheapest by too
// much, and options that another option of the task beats wherever the neighbours are.
func (c *costSolver) filter(s *costSearch) {
	if c.dom == nil {
		c.dom = NewDomination(c.inst)
	}
	slack := s.cut() - s.lower
	for _, t := range s.tasks {
		opts := c.inst.Options(t)
		alive := c.alive[c.inst.First[t]:c.inst.First[t+1]]
		least := search.Inf
		for _, o := range opts {
			least = min(least, o.USD)
		}
		for k := range opts {
			if opts[k].USD-least >= slack {
				alive[k] = false
			}
		}
		c.dom.filter(t, alive)
	}
}

// components groups the tasks that are connected by data transfers. Each group is in topological order.
func components(inst *problem.Instance) [][]int32 {
	root := make([]int32, inst.NTask())
	for t := range root {
		root[t] = int32(t) // #nosec G115 -- at most MaxTasks
	}
	find := func(t int32) int32 {
		for root[t] != t {
			root[t] = root[root[t]]
			t = root[t]
		}
		return t
	}
	if slices.ContainsFunc(inst.USD, func(x float64) bool { return x > 0 }) {
		for i := range inst.Edges {
			if e := &inst.Edges[i]; e.SumGiB > 0 {
				a, b := find(e.From), find(e.To)
				root[max(a, b)] = min(a, b)
			}
		}
	}
	group := make([]int32, inst.NTask())
	var groups [][]int32
	for _, t := range inst.Topo {
		r := find(t)
		if group[r] == 0 {
			groups = append(groups, nil)
			group[r] = int32(len(groups)) // #nosec G115 -- at most MaxTasks
		}
		g := &groups[group[r]-1]
		*g = append(*g, t)
	}
	return groups
}

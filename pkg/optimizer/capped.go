package optimizer

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// cappedSearch minimises one sum over the plans that satisfy a limit on another sum and the deadline: cost within a
// carbon cap, or emissions within a budget. It adds the limited sum times a price to the minimised sum, and drops the
// limit. The optimum of that problem is a lower bound. If a gap remains at the best price, branch and bound over the
// candidates closes it. With byTime it minimises the makespan within a budget and a carbon cap, and a weight combines
// the two limits into one.
type cappedSearch struct {
	s        *carbonSolver
	minimise measure
	bound    measure
	limit    float64
	byTime   bool
	budget   float64 // limit of minimise, if byTime

	best  []int
	upper float64
	open  cappedHeap
	seq   int
}

// part is a node of the search: a subset of each task's candidates.
type part struct {
	lower float64
	seq   int
	mask  [][]bool // nil means all
	// light and heavy are two plans: light satisfies the limit, heavy does not.
	light, heavy []int
}

type cappedHeap []*part

func (h cappedHeap) Len() int { return len(h) }
func (h cappedHeap) Less(i, j int) bool {
	if h[i].lower != h[j].lower {
		return h[i].lower < h[j].lower
	}
	return h[i].seq > h[j].seq
}
func (h cappedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cappedHeap) Push(x any)   { *h = append(*h, x.(*part)) }
func (h *cappedHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// run searches from the given plans. The picks, status and bound of the solution are those of the model, but not the
// objective. Infeasible means that no plan satisfies the limits.
func (c *cappedSearch) run(known ...[]int) (*Solution, error) {
	c.upper = search.Inf
	for _, p := range known {
		c.offer(p)
	}
	if err := c.enter(nil, math.Inf(-1)); err != nil {
		return nil, err
	}
	for len(c.open) > 0 && !c.s.meter.Stopped && c.open[0].lower < c.enough() && len(c.open) < search.MaxOpen/100 {
		p := heap.Pop(&c.open).(*part)
		for _, mask := range c.split(p) {
			if err := c.enter(mask, p.lower); err != nil {
				return nil, err
			}
		}
	}
	lower := c.upper
	if len(c.open) > 0 && c.open[0].lower < c.cut() {
		lower = c.open[0].lower
	}
	if c.best == nil {
		if lower < search.Inf {
			return nil, fmt.Errorf("%w: no plan within the carbon cap was found", ErrUndecided)
		}
		return &Solution{Status: Infeasible}, nil
	}
	sol := &Solution{Status: Optimal, Bound: c.upper, Objective: c.upper, Picks: c.best}
	if lower < c.upper {
		sol.Status, sol.Bound = Feasible, max(0, lower*(1-1e-12))
		sol.Message = stoppedEarly(c.upper, sol.Bound)
	}
	return sol, nil
}

func (c *cappedSearch) cut() float64 { return search.CutBelow(c.upper) }

// enough returns the bound from which on the best plan is good enough.
func (c *cappedSearch) enough() float64 {
	if gap := c.s.meter.Gap; gap > 0 && c.upper < search.Inf {
		return min(c.cut(), c.upper-gap*c.upper)
	}
	return c.cut()
}

// offer stores a plan if it satisfies the limits and is the best so far. The caller has already applied the deadline.
func (c *cappedSearch) offer(p []int) {
	if p == nil {
		return
	}
	usd, kg := c.s.cost(p), c.s.emissions(p)
	if c.bound.of(usd, kg) >= search.Beyond(c.limit) || c.byTime && c.minimise.of(usd, kg) >= search.Beyond(c.budget) {
		return
	}
	objective := c.minimise.of(usd, kg)
	if c.byTime {
		objective = c.s.makespan(p)
	}
	if objective < c.upper {
		c.best, c.upper = slices.Clone(p), objective
	}
}

// solve solves a view of the part and offers its plan. It returns nil if no plan satisfies the view's limits.
func (c *cappedSearch) solve(v *Model, mask [][]bool) (*Solution, error) {
	sol, err := c.s.sub(v, nil)
	if err != nil || sol.Status == Infeasible {
		return nil, err
	}
	sol = c.s.unmask(sol, mask)
	c.offer(sol.Picks)
	return sol, nil
}

// enter bounds a part and keeps it open if it may contain a better plan.
func (c *cappedSearch) enter(mask [][]bool, lower float64) error {
	p := &part{mask: mask, lower: lower}
	price := c.price
	if c.byTime {
		price = c.weigh
	}
	open, err := price(p)
	if errors.Is(err, ErrUndecided) {
		open, err = true, nil // the part stays open with its current bound
	}
	if err != nil || !open || p.lower >= c.cut() {
		return err
	}
	c.fill(p.light)
	c.seq++
	p.seq = c.seq
	heap.Push(&c.open, p)
	return nil
}

// priceSteps is the maximum number of steps in the search for a price; later steps gain little.
const priceSteps = 12

// price bounds a part with the best price on the limited sum. To find that price, it draws a line in the plane of
// both sums, through a plan that satisfies the limit and one that does not. It repeats this with better plans until
// none lies below the line. It reports whether the part may contain a better plan.
func (c *cappedSearch) price(p *part) (open bool, err error) {
	heavy, err := c.solve(c.s.view(c.minimise, p.mask), p.mask)
	if err != nil || heavy == nil {
		return false, err
	}
	p.lower = max(p.lower, heavy.Bound)
	p.heavy = heavy.Picks
	if c.sum(c.bound, p.heavy) < search.Beyond(c.limit) {
		return heavy.Status != Optimal, nil // heavy is the best plan of the part
	}
	light, err := c.solve(c.s.view(c.bound, p.mask), p.mask)
	if err != nil || light == nil || light.Bound >= search.Beyond(c.limit) {
		return false, err
	}
	p.light = light.Picks
	for range priceSteps {
		a0, b0 := c.sum(c.minimise, p.heavy), c.sum(c.bound, p.heavy)
		a1, b1 := c.sum(c.minimise, p.light), c.sum(c.bound, p.light)
		if a1 <= a0 || b0 <= b1 || p.lower >= c.cut() {
			break
		}
		perUnit := (a1 - a0) / (b0 - b1)
		if perUnit*b0 > MaxValue {
			break // the two plans hardly differ in the limited sum
		}
		sol, err := c.solve(c.s.view(c.minimise.plus(perUnit, c.bound), p.mask), p.mask)
		if err != nil {
			return true, err
		}
		p.lower = max(p.lower, sol.Bound-perUnit*search.Beyond(c.limit))
		a, b := c.sum(c.minimise, sol.Picks), c.sum(c.bound, sol.Picks)
		if a+perUnit*b >= (a0+perUnit*b0)*(1-1e-12) || c.s.meter.Stopped {
			break // on the line
		}
		if b < search.Beyond(c.limit) {
			p.light = sol.Picks
		} else {
			p.heavy = sol.Picks
		}
	}
	return true, nil
}

// weigh bounds the makespan in a part with the best weight between the two limits: a plan that satisfies both
// satisfies any mixture of them.
func (c *cappedSearch) weigh(p *part) (open bool, err error) {
	low, high := 0.0, 1.0
	perUSD, perKg := 1/c.unit(c.minimise, c.budget), 1/c.unit(c.bound, c.limit)
	for k := range priceSteps {
		w := (low + high) / 2
		switch k {
		case 0:
			w = 0
		case 1:
			w = 1
		}
		a := measure{}.plus((1-w)*perUSD, c.minimise).plus(w*perKg, c.bound)
		v := c.s.view(a, p.mask)
		one := 1.0
		v.Objective, v.BudgetUSD = Makespan, &one
		sol, err := c.solve(v, p.mask)
		if err != nil || sol == nil {
			return false, err
		}
		p.lower = max(p.lower, sol.Bound)
		if p.lower >= c.cut() || c.s.meter.Stopped {
			break
		}
		over := c.sum(c.bound, sol.Picks) >= search.Beyond(c.limit)
		if over {
			p.heavy, low = sol.Picks, max(low, w)
		} else {
			p.light, high = sol.Picks, min(high, w)
		}
		if high-low < 1e-3 {
			break
		}
	}
	return true, nil
}

// unit returns the unit in which a sum is measured: its limit. For a limit near zero it returns more, because the
// values of a view are limited.
func (c *cappedSearch) unit(a measure, limit float64) float64 {
	most := 0.0
	for t := range c.s.m.Tasks {
		for k := range c.s.m.Tasks[t].Candidates {
			cand := &c.s.m.Tasks[t].Candidates[k]
			most = max(most, a.of(cand.USD, cand.KgCO2))
		}
	}
	return max(limit, 1e-9*most, 1e-12)
}

func (c *cappedSearch) sum(a measure, picks []int) float64 {
	return a.of(c.s.cost(picks), c.s.emissions(picks))
}

// split splits part p in two at the task whose limited amounts in the two plans differ most: candidates with at most
// the lighter plan's amount, and the others.
func (c *cappedSearch) split(p *part) [][][]bool {
	task, most := -1, -1.0
	for _, i := range c.s.inst.Order {
		t := int(i)
		if p.light == nil || p.heavy == nil || p.light[t] == p.heavy[t] {
			continue
		}
		x, y := c.limitedAmount(t, p.light[t]), c.limitedAmount(t, p.heavy[t])
		if d := math.Abs(x - y); d > most {
			task, most = t, d
		}
	}
	if task >= 0 && most > 0 {
		least := min(c.limitedAmount(task, p.light[task]), c.limitedAmount(task, p.heavy[task]))
		return c.halves(p, task, func(k int) bool { return c.limitedAmount(task, k) <= least })
	}
	if task >= 0 {
		return c.halves(p, task, func(k int) bool { return k == p.light[task] })
	}
	return c.splitAnyTask(p)
}

// splitAnyTask splits p if its plans give no hint: it separates one candidate of the task with the most candidates
// left.
func (c *cappedSearch) splitAnyTask(p *part) [][][]bool {
	task, most := -1, 1
	for _, i := range c.s.inst.Order {
		t, n := int(i), 0
		for k := range c.s.m.Tasks[t].Candidates {
			if p.mask == nil || p.mask[t][k] {
				n++
			}
		}
		if n > most {
			task, most = t, n
		}
	}
	if task < 0 {
		return nil // a single plan, which was offered before
	}
	chosen := -1
	cands := c.s.m.Tasks[task].Candidates
	for k := range cands {
		if (p.mask == nil || p.mask[task][k]) && (chosen < 0 || cands[k].ID < cands[chosen].ID) {
			chosen = k
		}
	}
	for _, q := range [][]int{p.light, p.heavy} {
		if q != nil {
			chosen = q[task]
		}
	}
	return c.halves(p, task, func(k int) bool { return k == chosen })
}

// limitedAmount returns a candidate's own share of the limited sum.
func (c *cappedSearch) limitedAmount(task, k int) float64 {
	cand := &c.s.m.Tasks[task].Candidates[k]
	return c.bound.of(cand.USD, cand.KgCO2)
}

// halves splits the remaining candidates of a task by pred.
func (c *cappedSearch) halves(p *part, task int, pred func(int) bool) [][][]bool {
	var out [][][]bool
	for _, want := range []bool{true, false} {
		mask := make([][]bool, len(c.s.m.Tasks))
		for t := range mask {
			if p.mask != nil {
				mask[t] = p.mask[t]
				continue
			}
			mask[t] = slices.Repeat([]bool{true}, len(c.s.m.Tasks[t].Candidates))
		}
		mask[task] = slices.Clone(mask[task])
		left := false
		for k := range mask[task] {
			mask[task][k] = mask[task][k] && pred(k) == want
			left = left || mask[task][k]
		}
		if left {
			out = append(out, mask)
		}
	}
	return out
}

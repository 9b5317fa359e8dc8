package optimizer

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// cappedSearch minimises one sum over the plans that keep a bound on another, and
// the deadline: cost within a cap on emissions, or the reverse. A price on the
// bounded sum gives a problem without the bound whose optimum is a bound here;
// where the dearest price that helps leaves a gap, branch and bound over the
// candidates closes it. With byTime it is the makespan within a budget and a cap,
// and the price weighs the two bounds into one.
type cappedSearch struct {
	s        *carbonSolver
	minimise measure
	bound    measure
	limit    float64
	byTime   bool
	budget   float64 // on minimise, byTime

	best  []int
	upper float64
	open  cappedHeap
	seq   int
}

// part is a node of the search: the candidates left to each task.
type part struct {
	lower float64
	seq   int
	mask  [][]bool // nil is all
	// light and heavy are the two plans between which the bound is broken.
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

// run searches from the given plans. The solution's picks, status and bound are
// those of the model, its objective is not set; Infeasible is that no plan keeps
// the bounds.
func (c *cappedSearch) run(known ...[]int) (*Solution, error) {
	c.upper = search.Inf
	for _, p := range known {
		c.offer(p)
	}
	if err := c.enter(nil, math.Inf(-1)); err != nil {
		return nil, err
	}
	for len(c.open) > 0 && !c.s.meter.Stopped && c.open[0].lower < c.enough() && len(c.open) < search.MostOpen/100 {
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
			return nil, fmt.Errorf("%w: no plan within the carbon cap yet", ErrUndecided)
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

// enough is the bound from which on the best plan will do.
func (c *cappedSearch) enough() float64 {
	if gap := c.s.meter.Gap; gap > 0 && c.upper < search.Inf {
		return min(c.cut(), c.upper-gap*c.upper)
	}
	return c.cut()
}

// offer keeps a plan if it keeps the bounds and is the best so far. What is bound
// to a deadline kept it already.
func (c *cappedSearch) offer(p []int) {
	if p == nil {
		return
	}
	usd, kg := c.s.spent(p), c.s.emitted(p)
	if c.bound.of(usd, kg) >= search.Beyond(c.limit) || c.byTime && c.minimise.of(usd, kg) >= search.Beyond(c.budget) {
		return
	}
	objective := c.minimise.of(usd, kg)
	if c.byTime {
		objective = c.s.took(p)
	}
	if objective < c.upper {
		c.best, c.upper = slices.Clone(p), objective
	}
}

// solve solves a view of the part and offers its plan; nil when no plan keeps the
// view's bounds.
func (c *cappedSearch) solve(v *Model, mask [][]bool) (*Solution, error) {
	sol, err := c.s.sub(v, nil)
	if err != nil || sol.Status == Infeasible {
		return nil, err
	}
	sol = c.s.unmask(sol, mask)
	c.offer(sol.Picks)
	return sol, nil
}

// enter bounds a part and leaves it open if it can hold a better plan.
func (c *cappedSearch) enter(mask [][]bool, lower float64) error {
	p := &part{mask: mask, lower: lower}
	price := c.price
	if c.byTime {
		price = c.weigh
	}
	open, err := price(p)
	if errors.Is(err, ErrUndecided) {
		open, err = true, nil // the part stays open with the bound it has
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

// steps of the price at most: they soon gain little.
const priceSteps = 12

// price bounds a part by the best price on the bounded sum, found by drawing the
// line between a plan that keeps the bound and one that breaks it until no plan
// lies below the line. It reports whether the part can hold a better plan.
func (c *cappedSearch) price(p *part) (open bool, err error) {
	heavy, err := c.solve(c.s.view(c.minimise, p.mask), p.mask)
	if err != nil || heavy == nil {
		return false, err
	}
	p.lower = max(p.lower, heavy.Bound)
	p.heavy = heavy.Picks
	if c.sum(c.bound, p.heavy) < search.Beyond(c.limit) {
		return heavy.Status != Optimal, nil // it is the best of the part
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
			break // the two differ by next to nothing in what is bounded
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

// weigh bounds the makespan in a part by the best weight between the two bounds:
// a plan that keeps both keeps any mixture of them.
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

// unit is the bound in which a sum is measured; of a bound next to nothing it is
// more, for what the view of a model may hold has an end.
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
	return a.of(c.s.spent(picks), c.s.emitted(picks))
}

// split parts p in two at the task on which its two plans differ most in what is
// bounded: the candidates that take as little as the lighter plan's, and the
// others.
func (c *cappedSearch) split(p *part) [][][]bool {
	task, most := -1, -1.0
	for _, i := range c.s.inst.Order {
		t := int(i)
		if p.light == nil || p.heavy == nil || p.light[t] == p.heavy[t] {
			continue
		}
		x, y := c.of(t, p.light[t]), c.of(t, p.heavy[t])
		if d := math.Abs(x - y); d > most {
			task, most = t, d
		}
	}
	if task >= 0 && most > 0 {
		least := min(c.of(task, p.light[task]), c.of(task, p.heavy[task]))
		return c.halves(p, task, func(k int) bool { return c.of(task, k) <= least })
	}
	if task >= 0 {
		return c.halves(p, task, func(k int) bool { return k == p.light[task] })
	}
	return c.settle(p)
}

// settle parts p where its plans say nothing: off some candidate of the task
// with most left.
func (c *cappedSearch) settle(p *part) [][][]bool {
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
		return nil // a single plan, offered already
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

// of is what a candidate adds to the bounded sum by itself.
func (c *cappedSearch) of(task, k int) float64 {
	cand := &c.s.m.Tasks[task].Candidates[k]
	return c.bound.of(cand.USD, cand.KgCO2)
}

// halves parts the candidates left to a task by pred.
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

package optimizer

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A model with groups of tasks that are placed together is solved once for each way to choose their sites that could
// still give a better plan: with its sites given, a model has no groups. Ways are taken by a bound on their objective
// that leaves out what moves, the least first, until the next bound is no less than the best plan's objective. As what
// moves costs little beside what runs, that is after a few.

// site of a candidate is what its group has in common there.
func (m *Model) site(c *Candidate) string {
	if c.Site != "" {
		return c.Site
	}
	return m.Places[c.Place]
}

// checkTogether tests the groups.
func (m *Model) checkTogether() error {
	if len(m.Together) == 0 {
		return nil
	}
	known, in := make(map[string]bool, len(m.Tasks)), map[string]string{}
	for i := range m.Tasks {
		known[m.Tasks[i].ID] = true
	}
	for g, group := range m.Together {
		for k, id := range group {
			field := indexed(indexed("together", g), k)
			if !known[id] {
				return modelErrorf(field, "no task has the id %q", clip(id))
			}
			if at, twice := in[id]; twice {
				return modelErrorf(field, "%q is in %s already", clip(id), at)
			}
			in[id] = field
		}
	}
	return nil
}

// group is one group of tasks, as indexes, with the sites that have a candidate for each of them, the least first.
type group struct {
	tasks []int
	sites []siteBound
}

// siteBound is a site with the least that the objective can be with the group there: of its tasks alone where
// the objective is a sum, of the longest path where it is the makespan.
type siteBound struct {
	name  string
	least float64
	usd   float64 // of its tasks, at least
}

// together is the search over the sites of a model's groups.
type together struct {
	m      *Model
	groups []group
	rest   float64 // what all other tasks come to at least, of a sum
	usd    float64 // and in money
	open   ways
	seen   map[string]bool

	hint       []int
	thresholds search.Thresholds
	meter      *search.Meter
	best, none *Solution // so far; none says why some way has no plan
	lower      float64   // bound of what was searched, and of the ways that were not searched to the end
	undecided  error
}

// way is one choice of sites, as indexes, with bounds on the objective and the cost of its plans.
type way struct {
	at         []int
	bound, usd float64
}

type ways []way

func (w ways) Len() int { return len(w) }
func (w ways) Less(i, j int) bool {
	return w[i].bound < w[j].bound || w[i].bound == w[j].bound && w[i].usd < w[j].usd
}
func (w ways) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *ways) Push(x any) { *w = append(*w, x.(way)) } //nolint:forcetypeassert // of this file alone

// Pop implements heap.Interface.
func (w *ways) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// solveTogether solves a model with groups.
func solveTogether(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	t, apart, err := newTogether(m)
	if err != nil || apart != nil {
		return apart, err
	}
	t.hint, t.thresholds, t.meter, t.lower = hint, th, meter, math.Inf(1)
	tried := ""
	if at := t.hinted(); at != nil { // of plans as good, the one in force stays
		tried = fmt.Sprint(at)
		if err := t.try(t.way(at)); err != nil {
			return nil, err
		}
	}
	t.push(make([]int, len(t.groups)))
	for ties := 0; t.open.Len() > 0; {
		w := heap.Pop(&t.open).(way) //nolint:forcetypeassert // of this file alone
		tied := t.best != nil && w.bound >= search.CutBelow(t.best.Objective)
		if tied && (m.Objective == Cost || ties == mostTies || w.bound >= search.Beyond(t.best.Objective)) {
			break
		}
		if meter.Stopped {
			t.lower = min(t.lower, w.bound)
			break
		}
		t.branch(w.at)
		if fmt.Sprint(w.at) == tried || tied && w.usd >= t.best.USD {
			continue
		}
		if tied {
			ties++
		}
		if err := t.try(w); err != nil {
			return nil, err
		}
	}
	return t.answer()
}

// try solves the model with its groups at the sites of a way, and keeps what is better.
func (t *together) try(w way) error {
	part := t.meter.Part(0.5)
	sol, err := t.solve(w.at, part)
	t.meter.Join(part)
	switch {
	case err != nil && t.meter.Cancelled() == nil && errors.Is(err, ErrUndecided):
		t.undecided, t.lower = err, min(t.lower, w.bound)
	case err != nil:
		return err
	case sol.Status == Infeasible:
		t.none = nearer(t.none, sol)
	default:
		t.lower = min(t.lower, sol.Bound)
		if t.best == nil || better(sol, t.best) {
			t.best = sol
		}
	}
	return nil
}

// mostTies is how many ways are looked at that can only be as good as the best plan's, but cheaper.
const mostTies = 32

// better says whether a plan is better than another, or as good and cheaper.
func better(a, b *Solution) bool {
	return a.Objective < search.CutBelow(b.Objective) ||
		a.Objective < search.Beyond(b.Objective) && a.USD < search.CutBelow(b.USD)
}

// answer is what the search has come to.
func (t *together) answer() (*Solution, error) {
	if t.best == nil && (t.undecided != nil || t.meter.Stopped || t.none == nil) {
		if t.undecided == nil {
			return nil, fmt.Errorf("%w: the least %s is %.6g or more", ErrUndecided, t.m.Objective, t.lower)
		}
		return nil, t.undecided
	}
	best := t.best
	if best == nil {
		best = t.none
	} else {
		best.Bound, best.Status, best.Message = min(t.lower, best.Objective), Optimal, ""
		if best.Bound < search.CutBelow(best.Objective) {
			best.Status, best.Message = Feasible, stoppedEarly(best.Objective, best.Bound)
		} else {
			best.Bound = best.Objective
		}
	}
	best.Millis = t.meter.Millis()
	return best, nil
}

// newTogether lays out the groups of a model. Where no site has room for one of them, or a task has no candidate, the
// answer is that.
func newTogether(m *Model) (*together, *Solution, error) {
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	links, err := linkTasks(m)
	if err != nil {
		return nil, nil, err
	}
	t := &together{m: m, seen: map[string]bool{}}
	index := make(map[string]int, len(m.Tasks))
	var without []string
	for i := range m.Tasks {
		index[m.Tasks[i].ID] = i
		if len(m.Tasks[i].Candidates) == 0 {
			without = append(without, m.Tasks[i].ID)
		}
	}
	if without != nil {
		return nil, &Solution{Status: Infeasible,
			Message: "no candidate for " + clip(strings.Join(without, ", ")),
			Reason:  &Reason{Constraint: NoCandidates, Tasks: without}}, nil
	}
	grouped := make([]bool, len(m.Tasks))
	for _, ids := range m.Together {
		if len(ids) == 0 {
			continue
		}
		g := group{}
		for _, id := range ids {
			g.tasks = append(g.tasks, index[id])
			grouped[index[id]] = true
		}
		if t.lay(&g, links); len(g.sites) == 0 {
			return nil, &Solution{Status: Infeasible,
				Message: "no one place has a candidate for each of " + clip(strings.Join(ids, ", ")),
				Reason:  &Reason{Constraint: NoCandidates, Tasks: ids}}, nil
		}
		t.groups = append(t.groups, g)
	}
	for i := range m.Tasks {
		if !grouped[i] {
			t.rest += t.least(i, "", t.m.Objective)
			t.usd += t.least(i, "", Cost)
		}
	}
	return t, nil, nil
}

// lay finds the sites of a group, and their bounds.
func (t *together) lay(g *group, links *problem.Links) {
	count := map[string]int{}
	for n, task := range g.tasks {
		for k := range t.m.Tasks[task].Candidates {
			if site := t.m.site(&t.m.Tasks[task].Candidates[k]); count[site] == n {
				count[site]++
			}
		}
	}
	for site, n := range count {
		if n < len(g.tasks) {
			continue
		}
		s := siteBound{name: site}
		if t.m.Objective == Makespan {
			s.least = t.path(g, site, links)
		} else {
			for _, task := range g.tasks {
				s.least += t.least(task, site, t.m.Objective)
			}
		}
		for _, task := range g.tasks {
			s.usd += t.least(task, site, Cost)
		}
		g.sites = append(g.sites, s)
	}
	slices.SortFunc(g.sites, func(a, b siteBound) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.usd, b.usd), strings.Compare(a.name, b.name))
	})
}

// least is the least of an objective that a task comes to on its candidates of a site; empty is any.
func (t *together) least(task int, site string, of Objective) float64 {
	least := math.Inf(1)
	for k := range t.m.Tasks[task].Candidates {
		c := &t.m.Tasks[task].Candidates[k]
		if site != "" && t.m.site(c) != site {
			continue
		}
		switch of {
		case Cost:
			least = min(least, c.USD)
		case Carbon:
			least = min(least, c.KgCO2)
		case Makespan:
			least = min(least, c.Hours)
		}
	}
	return least
}

// path is the longest path by the least hours of each task, with a group at a site.
func (t *together) path(g *group, site string, links *problem.Links) float64 {
	hours := make([]float64, len(t.m.Tasks))
	for i := range hours {
		at := ""
		if slices.Contains(g.tasks, i) {
			at = site
		}
		hours[i] = t.least(i, at, Makespan)
	}
	start, longest := make([]float64, len(hours)), 0.0
	out := problem.Adjacent(len(hours), links.Edges, func(e *problem.Link) int32 { return e.From })
	for _, v := range links.Topo {
		end := start[v] + hours[links.Order[v]]
		longest = max(longest, end)
		for _, e := range out.Of(v) {
			to := links.Edges[e].To
			start[to] = max(start[to], end)
		}
	}
	return longest
}

// way bounds what plans come to with the groups at sites.
func (t *together) way(at []int) way {
	const less = 1 - 1e-12 // a plan's sum is in another order
	sum, most, usd := t.rest, 0.0, t.usd
	for g, k := range at {
		s := &t.groups[g].sites[k]
		sum += s.least
		most = max(most, s.least)
		usd += s.usd
	}
	if t.m.Objective == Makespan {
		return way{at, most * less, usd * less}
	}
	return way{at, sum * less, usd * less}
}

// push opens a way, once.
func (t *together) push(at []int) {
	key := fmt.Sprint(at)
	if t.seen[key] {
		return
	}
	t.seen[key] = true
	heap.Push(&t.open, t.way(at))
}

// branch opens the ways that differ from one by the next site of one group: no bound of theirs is less.
func (t *together) branch(at []int) {
	for g := range at {
		if at[g]+1 < len(t.groups[g].sites) {
			next := slices.Clone(at)
			next[g]++
			t.push(next)
		}
	}
}

// hinted is the way of a plan to start from; nil where it has none.
func (t *together) hinted() []int {
	hint := t.hint
	if len(hint) != len(t.m.Tasks) {
		return nil
	}
	at := make([]int, len(t.groups))
	for g := range t.groups {
		site := ""
		for _, task := range t.groups[g].tasks {
			if k := hint[task]; k >= 0 && k < len(t.m.Tasks[task].Candidates) {
				site = t.m.site(&t.m.Tasks[task].Candidates[k])
				break
			}
		}
		at[g] = slices.IndexFunc(t.groups[g].sites, func(s siteBound) bool { return s.name == site })
		if at[g] < 0 {
			return nil
		}
	}
	return at
}

// within is the model with its groups at sites, and for each task which of its candidates are left; nil is all.
func (t *together) within(at []int) (*Model, [][]int) {
	m := *t.m
	m.Together, m.Tasks = nil, slices.Clone(t.m.Tasks)
	left := make([][]int, len(m.Tasks))
	for g, k := range at {
		site := t.groups[g].sites[k].name
		for _, task := range t.groups[g].tasks {
			all := t.m.Tasks[task].Candidates
			m.Tasks[task].Candidates = nil
			for c := range all {
				if t.m.site(&all[c]) == site {
					m.Tasks[task].Candidates = append(m.Tasks[task].Candidates, all[c])
					left[task] = append(left[task], c)
				}
			}
		}
	}
	return &m, left
}

// solve solves the model with its groups at sites.
func (t *together) solve(at []int, meter *search.Meter) (*Solution, error) {
	m, left := t.within(at)
	hint := t.hint
	if len(hint) == len(left) {
		hint = slices.Clone(hint)
		for task, of := range left {
			if of != nil {
				hint[task] = slices.Index(of, hint[task])
			}
		}
	}
	sol, err := solveOn(meter, m, hint, t.thresholds)
	if err == nil {
		restore(sol.Picks, left)
	}
	return sol, err
}

// restore turns picks among the candidates that are left into picks among all.
func restore(picks []int, left [][]int) {
	for task := range picks {
		if left[task] != nil {
			picks[task] = left[task][picks[task]]
		}
	}
}

// nearer is which of two infeasible answers lacks less. Where they lack different things neither says what the model
// lacks exactly.
func nearer(a, b *Solution) *Solution {
	if a == nil || a.Reason == nil || b.Reason == nil {
		return b
	}
	if a.Reason.Constraint != b.Reason.Constraint {
		a.Reason.Exact = false
		return a
	}
	if need(b.Reason) < need(a.Reason) {
		return b
	}
	return a
}

// need is how much a reason asks for.
func need(r *Reason) float64 {
	switch r.Constraint {
	case Budget:
		return r.LeastUSD
	case CarbonCap:
		return r.LeastKgCO2
	case Deadline, DeadlineAndBudget, NoCandidates:
	}
	return r.LeastHours
}

package optimizer

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A model with Together groups is solved once for each choice of sites ("way") that may still give a better plan.
// With fixed sites a model has no groups. Ways are ordered by a lower bound of their objective that ignores
// transfers, and are tried until the next bound is no less than the best objective. Transfers are usually cheap
// compared to run time, so a few ways are enough. After that, ways that may have the same objective but a lower cost
// are tried in the order of their costs. Sites at which a group alone exceeds a limit are left out from the start.

// site returns a candidate's site for Together groups.
func (m *Model) site(c *Candidate) string {
	if c.Site != "" {
		return c.Site
	}
	return m.Places[c.Place]
}

// checkTogether validates the Together groups.
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

// group is one group of tasks, as indexes, and the sites with a candidate for each of them, lowest bound first.
type group struct {
	tasks []int
	sites []siteBound
}

// siteBound is a site with a lower bound of the objective if the group is there: the sum of the group's tasks, or,
// for the makespan, the longest path.
type siteBound struct {
	name  string
	least float64
	usd   float64 // lower bound of the cost of its tasks
	lacks *Reason // why no plan can have the group there, if that is certain
}

// together is the search over the sites of a model's groups.
type together struct {
	m      *Model
	groups []group
	rest   float64 // lower bound of the sum of all other tasks in the objective
	usd    float64 // the same for the cost
	open   ways
	seen   map[string]bool // opened ways
	tried  map[string]bool // tried ways, by the names of their sites

	hint       []int
	thresholds search.Thresholds
	meter      *search.Meter
	best, none *Solution // so far; none is the reason why some way has no plan
	lower      float64   // lower bound of the ways that were searched, completely or not
	undecided  error
	// hopeless is the reason why no site of some group can have a plan; nil if each group has a possible site.
	hopeless *Solution
}

// way is one choice of sites, as indexes, with lower bounds of the objective and the cost of its plans.
type way struct {
	at         []int
	bound, usd float64
}

// ways is a heap of open ways, by lowest bound, or by cost if cheapest.
type ways struct {
	of       []way
	cheapest bool
}

func (w ways) Len() int { return len(w.of) }
func (w ways) Less(i, j int) bool {
	a, b := w.of[i], w.of[j]
	if w.cheapest {
		return a.usd < b.usd || a.usd == b.usd && a.bound < b.bound
	}
	return a.bound < b.bound || a.bound == b.bound && a.usd < b.usd
}
func (w ways) Swap(i, j int) { w.of[i], w.of[j] = w.of[j], w.of[i] }

// Push implements heap.Interface.
func (w *ways) Push(x any) { w.of = append(w.of, x.(way)) } //nolint:forcetypeassert // only ways are pushed

// Pop implements heap.Interface.
func (w *ways) Pop() any {
	last := w.of[len(w.of)-1]
	w.of = w.of[:len(w.of)-1]
	return last
}

// solveTogether solves a model with Together groups.
func solveTogether(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	t, apart, err := newTogether(m, meter)
	if err != nil || apart != nil {
		return apart, err
	}
	t.hint, t.thresholds, t.lower = hint, th, math.Inf(1)
	if at := t.hinted(); at != nil { // of equally good plans, the current one stays
		if err := t.try(t.way(at)); err != nil {
			return nil, err
		}
	}
	if err := t.search(); err != nil {
		return nil, err
	}
	if t.best != nil && m.Objective != Cost && !meter.Stopped {
		if err := t.ties(); err != nil {
			return nil, err
		}
	}
	if err := meter.Cancelled(); err != nil {
		return nil, err
	}
	return t.answer()
}

// perWay is the work for opening the neighbours of a way, for each group.
const perWay = 500

// next removes the next way and opens its neighbours. It returns false if there is none, or if the work limit is
// reached.
func (t *together) next() (w way, ok bool) {
	if t.open.Len() == 0 {
		return w, false
	}
	w = heap.Pop(&t.open).(way) //nolint:forcetypeassert // only ways are pushed
	if !t.meter.Spend(perWay * len(w.at)) {
		return w, false
	}
	t.branch(w.at)
	return w, true
}

// search tries ways until no remaining way can be better.
func (t *together) search() error {
	t.push(make([]int, len(t.groups)))
	for tries := 0; t.open.Len() > 0; tries++ {
		if t.hopeless != nil && tries == maxHopeless {
			t.none = combineReasons(t.none, t.hopeless)
			return nil
		}
		w, ok := t.next()
		if t.best != nil && w.bound >= search.CutBelow(t.best.Objective) {
			return nil
		}
		if !ok {
			t.lower = min(t.lower, w.bound)
			return nil
		}
		if b := t.m.BudgetUSD; b != nil && w.usd >= search.Beyond(*b) {
			t.none = combineReasons(
				t.none,
				&Solution{Status: Infeasible, Reason: &Reason{Constraint: Budget, LeastUSD: w.usd}},
			)
			if t.m.Objective == Cost {
				return nil // the remaining ways exceed the budget too
			}
			continue
		}
		if err := t.try(w); err != nil {
			return err
		}
	}
	return nil
}

// maxHopeless is the maximum number of ways tried for a model that certainly has no plan, to find the nearest
// relaxation.
const maxHopeless = 64

// maxTies is the maximum number of ways tried that may have the best objective at a lower cost. maxSkipped is the
// maximum number of ways skipped because their objective is worse.
const (
	maxTies    = 32
	maxSkipped = 4096
)

// ties tries ways that may have the best objective, in the order of their costs, as long as they may be cheaper.
func (t *together) ties() error {
	fit := t.way(make([]int, len(t.groups))).bound // with the best site of each group
	for g := range t.groups {
		of := &t.groups[g]
		least := of.sites[0].least
		of.sites = slices.DeleteFunc(of.sites, func(s siteBound) bool {
			if t.m.Objective == Makespan {
				return s.least >= search.Beyond(t.best.Objective)
			}
			return fit-least+s.least >= search.Beyond(t.best.Objective)
		})
		if len(of.sites) == 0 {
			return nil
		}
		slices.SortStableFunc(of.sites, func(a, b siteBound) int { return cmp.Compare(a.usd, b.usd) })
	}
	t.open, t.seen = ways{cheapest: true}, map[string]bool{}
	t.push(make([]int, len(t.groups)))
	for tries, passed := 0, 0; tries < maxTies && passed < maxSkipped; {
		w, ok := t.next()
		if !ok || w.usd >= t.best.USD {
			return nil
		}
		if w.bound >= search.Beyond(t.best.Objective) || t.tried[t.name(w.at)] {
			passed++
			continue
		}
		tries++
		if err := t.try(w); err != nil {
			return err
		}
	}
	return nil
}

// name identifies a way independently of the order of sites in its groups.
func (t *together) name(at []int) string {
	var b strings.Builder
	for g, k := range at {
		b.WriteString(t.groups[g].sites[k].name + "\x00")
	}
	return b.String()
}

// try solves the model with its groups at the sites of a way, once for each way, and stores a better result.
func (t *together) try(w way) error {
	name := t.name(w.at)
	if t.tried[name] {
		return nil
	}
	t.tried[name] = true
	part := t.meter.Part(0.5)
	sol, err := t.solve(w.at, part)
	t.meter.Join(part)
	switch {
	case err != nil && t.meter.Cancelled() == nil && errors.Is(err, ErrUndecided):
		t.undecided, t.lower = err, min(t.lower, w.bound)
	case err != nil:
		return err
	case sol.Status == Infeasible:
		t.none = combineReasons(t.none, sol)
	default:
		t.lower = min(t.lower, sol.Bound)
		if t.best == nil || better(sol, t.best) {
			t.best = sol
		}
	}
	return nil
}

// better reports whether plan a has a better objective than b, or an equal one and a lower cost.
func better(a, b *Solution) bool {
	return a.Objective < search.CutBelow(b.Objective) ||
		a.Objective < search.Beyond(b.Objective) && a.USD < search.CutBelow(b.USD)
}

// answer returns the result of the search.
func (t *together) answer() (*Solution, error) {
	if t.best == nil && (t.undecided != nil || t.meter.Stopped || t.none == nil) {
		if t.undecided == nil {
			return nil, fmt.Errorf("%w: the minimum %s is at least %.6g", ErrUndecided, t.m.Objective, t.lower)
		}
		return nil, t.undecided
	}
	best := t.best
	if best == nil {
		best = t.none
		if best.Message == "" {
			best.Message = t.m.describeReason(best.Reason)
		}
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

// way computes the lower bounds of plans with the groups at sites.
func (t *together) way(at []int) way {
	const less = 1 - 1e-12 // a plan's sum is added in another order
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

// push opens a way once.
func (t *together) push(at []int) {
	key := fmt.Sprint(at)
	if t.seen[key] {
		return
	}
	t.seen[key] = true
	heap.Push(&t.open, t.way(at))
}

// branch opens the ways that differ by the next site of one group. Their bounds are not lower.
func (t *together) branch(at []int) {
	for g := range at {
		if at[g]+1 < len(t.groups[g].sites) {
			next := slices.Clone(at)
			next[g]++
			t.push(next)
		}
	}
}

// hinted returns the way of the hint, or nil if there is none.
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

// within returns the model with its groups at sites and, for each task, which of its candidates are left (nil means
// all).
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

// solve solves the model with its groups at the sites of a way.
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

// restore converts picks among the remaining candidates to picks among all.
func restore(picks []int, left [][]int) {
	for task := range picks {
		if left[task] != nil {
			picks[task] = left[task][picks[task]]
		}
	}
}

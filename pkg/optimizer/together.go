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

// A model with groups of tasks that are placed together is solved once for each way to choose their sites that could
// still give a better plan: with its sites given, a model has no groups. Ways are taken by a bound on their objective
// that leaves out what moves, the least first, until the next bound is no less than the best plan's objective. As
// what moves costs little beside what runs, that is after a few. Of ways that can only be as good, those that may be
// cheaper are taken after that, by their costs. Sites at which a group alone is beyond a limit are left out from the
// start.

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
	lacks *Reason // why no plan has the group there, if that is certain
}

// together is the search over the sites of a model's groups.
type together struct {
	m      *Model
	groups []group
	rest   float64 // what all other tasks come to at least, of a sum
	usd    float64 // and in money
	open   ways
	seen   map[string]bool // what was opened
	tried  map[string]bool // by the names of its sites

	hint       []int
	thresholds search.Thresholds
	meter      *search.Meter
	best, none *Solution // so far; none says why some way has no plan
	lower      float64   // bound of what was searched, and of the ways that were not searched to the end
	undecided  error
	// hopeless says why there is no plan at any site of some group; nil where each has one that may do.
	hopeless *Solution
}

// way is one choice of sites, as indexes, with bounds on the objective and the cost of its plans.
type way struct {
	at         []int
	bound, usd float64
}

// ways are open ways, those with the least bound first, or the cheapest.
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
func (w *ways) Push(x any) { w.of = append(w.of, x.(way)) } //nolint:forcetypeassert // of this file alone

// Pop implements heap.Interface.
func (w *ways) Pop() any {
	last := w.of[len(w.of)-1]
	w.of = w.of[:len(w.of)-1]
	return last
}

// solveTogether solves a model with groups.
func solveTogether(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	t, apart, err := newTogether(m, meter)
	if err != nil || apart != nil {
		return apart, err
	}
	t.hint, t.thresholds, t.lower = hint, th, math.Inf(1)
	if at := t.hinted(); at != nil { // of plans as good, the one in force stays
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

// perWay is the work of opening the ways beside one, for each group.
const perWay = 500

// next takes the next way, and opens those beside it; false where there is none, or no work left for it.
func (t *together) next() (w way, ok bool) {
	if t.open.Len() == 0 {
		return w, false
	}
	w = heap.Pop(&t.open).(way) //nolint:forcetypeassert // of this file alone
	if !t.meter.Spend(perWay * len(w.at)) {
		return w, false
	}
	t.branch(w.at)
	return w, true
}

// search tries ways until none that is left can be better.
func (t *together) search() error {
	t.push(make([]int, len(t.groups)))
	for tries := 0; t.open.Len() > 0; tries++ {
		if t.hopeless != nil && tries == mostHopeless {
			t.none = nearer(t.none, t.hopeless)
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
			t.none = nearer(t.none, &Solution{Status: Infeasible, Reason: &Reason{Constraint: Budget, LeastUSD: w.usd}})
			if t.m.Objective == Cost {
				return nil // so is all that is left
			}
			continue
		}
		if err := t.try(w); err != nil {
			return err
		}
	}
	return nil
}

// mostHopeless is how many ways are tried of a model that has no plan for certain, to say what would do.
const mostHopeless = 64

// mostTies is how many ways are looked at that can only be as good as the best plan's, but cheaper; mostPassed how
// many are passed over for that, as they are not as good.
const (
	mostTies   = 32
	mostPassed = 4096
)

// ties tries ways that may be as good as the best plan, by their costs, while they may be cheaper.
func (t *together) ties() error {
	fit := t.way(make([]int, len(t.groups))).bound // at the best site of each group
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
	for tries, passed := 0, 0; tries < mostTies && passed < mostPassed; {
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

// name is what a way is known by, in whatever order the sites of its groups are.
func (t *together) name(at []int) string {
	var b strings.Builder
	for g, k := range at {
		b.WriteString(t.groups[g].sites[k].name + "\x00")
	}
	return b.String()
}

// try solves the model with its groups at the sites of a way, once, and keeps what is better.
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
		t.none = nearer(t.none, sol)
	default:
		t.lower = min(t.lower, sol.Bound)
		if t.best == nil || better(sol, t.best) {
			t.best = sol
		}
	}
	return nil
}

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
		if best.Message == "" {
			best.Message = t.m.lacking(best.Reason)
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

package optimizer

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// A model with Spread groups is first solved without them. If the plan has too many machines of a group at one site,
// at least one of the group's tasks there must leave. The search branches: either the first task leaves the site; or
// it stays and the second leaves; and so on. These branches cover all plans and do not overlap. Each branch is a
// model with fewer candidates, so its objective is no better. Branches are solved in the order of their bounds, until
// the next bound is no better than the best plan that satisfies all groups. Among tasks that are alike, only the
// branch of the first is needed.

// Spread is a group of tasks with at most Most machines at one site.
type Spread struct {
	// Tasks are the ids of its tasks.
	Tasks []string `json:"tasks"`
	// Machines are the numbers of machines of the tasks, in the same order; empty means one each.
	Machines []int `json:"machines,omitempty"`
	// By is the kind of site: a place, or a zone of a place (Candidate.Zone).
	By SiteKind `json:"by"`
	// Most is the maximum number of machines at one site, at least 1.
	Most int `json:"most"`
}

// SiteKind is the kind of site over which tasks are spread.
type SiteKind string

// The kinds of sites.
const (
	ByPlace SiteKind = "place"
	ByZone  SiteKind = "zone"
)

// siteBy returns the site of a candidate.
func (m *Model) siteBy(c *Candidate, by SiteKind) string {
	if by == ByZone && c.Zone != "" {
		return m.Places[c.Place] + "/" + c.Zone
	}
	return m.Places[c.Place]
}

// machines returns the number of machines of the group's task k.
func (g *Spread) machines(k int) int {
	if len(g.Machines) == 0 {
		return 1
	}
	return g.Machines[k]
}

// checkSpread validates the Spread groups.
func (m *Model) checkSpread() error {
	if len(m.Spread) == 0 {
		return nil
	}
	known := make(map[string]bool, len(m.Tasks))
	for i := range m.Tasks {
		known[m.Tasks[i].ID] = true
	}
	for n := range m.Spread {
		g, field := &m.Spread[n], indexed("spread", n)
		seen := map[string]bool{}
		for k, id := range g.Tasks {
			switch at := indexed(field+".tasks", k); {
			case !known[id]:
				return modelErrorf(at, "no task has the id %q", clip(id))
			case seen[id]:
				return modelErrorf(at, "%q is listed twice", clip(id))
			}
			seen[id] = true
		}
		switch {
		case g.By != ByPlace && g.By != ByZone:
			return modelErrorf(field+".by", "%q is neither %q nor %q", clip(string(g.By)), ByPlace, ByZone)
		case g.Most < 1:
			return modelErrorf(field+".most", "%d is less than 1", g.Most)
		case len(g.Machines) > 0 && len(g.Machines) != len(g.Tasks):
			return modelErrorf(field+".machines", "%d numbers for %d tasks", len(g.Machines), len(g.Tasks))
		}
		for k, n := range g.Machines {
			if n < 1 {
				return modelErrorf(indexed(field+".machines", k), "%d is less than 1", n)
			}
		}
	}
	return nil
}

// spread is the search over the tasks that leave sites.
type spread struct {
	m      *Model
	groups []spreadGroup
	alike  map[[2]int]bool // pairs of tasks with the same candidates and edges
	open   branches
	count  int

	hint       []int
	thresholds search.Thresholds
	meter      *search.Meter
	best, none *Solution
	lower      float64
	undecided  error
}

// spreadGroup is a group with its tasks as indexes.
type spreadGroup struct {
	*Spread
	tasks []int
}

// branch is a model with fewer candidates: the remaining candidates of each task that has lost some, and the best
// plan without regard to the groups.
type branch struct {
	left  map[int][]int
	sol   *Solution
	order int // with equal bounds the newest goes first, because it is closer to a complete plan
}

type branches []*branch

func (b branches) Len() int { return len(b) }
func (b branches) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(b[i].sol.Bound, b[j].sol.Bound), cmp.Compare(b[j].order, b[i].order)) < 0
}
func (b branches) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push implements heap.Interface.
func (b *branches) Push(x any) { *b = append(*b, x.(*branch)) } //nolint:forcetypeassert // only branches are pushed

// Pop implements heap.Interface.
func (b *branches) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// solveSpread solves a model with Spread groups.
func solveSpread(m *Model, hint []int, th search.Thresholds, meter *search.Meter) (*Solution, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	s := &spread{m: m, hint: hint, thresholds: th, meter: meter, lower: math.Inf(1), alike: map[[2]int]bool{}}
	index := make(map[string]int, len(m.Tasks))
	for i := range m.Tasks {
		index[m.Tasks[i].ID] = i
	}
	for n := range m.Spread {
		g := spreadGroup{Spread: &m.Spread[n]}
		for _, id := range g.Tasks {
			g.tasks = append(g.tasks, index[id])
		}
		s.groups = append(s.groups, g)
	}
	if err := s.try(map[int][]int{}, 0); err != nil {
		return nil, err
	}
	for s.open.Len() > 0 {
		b := heap.Pop(&s.open).(*branch) //nolint:forcetypeassert // only branches are pushed
		if s.best != nil && b.sol.Bound >= search.CutBelow(s.best.Objective) {
			break
		}
		if meter.Stopped {
			s.lower = min(s.lower, b.sol.Bound)
			break
		}
		if err := s.branchOn(b); err != nil {
			return nil, err
		}
	}
	return s.answer()
}

// try solves a branch. If its plan satisfies all groups, it is a plan of the model, and no other plan in the branch
// is better. Otherwise the branch is opened. bound is its known lower bound: that of the branch it comes from, or 0.
func (s *spread) try(left map[int][]int, bound float64) error {
	for i := range s.m.Tasks {
		if of, cut := left[i]; cut && len(of) == 0 {
			s.none = combineReasons(s.none, s.noRoom(i))
			return nil
		}
	}
	m := *s.m
	m.Spread, m.Tasks = nil, slices.Clone(s.m.Tasks)
	hint := slices.Clone(s.hint)
	for i, of := range left {
		m.Tasks[i].Candidates = make([]Candidate, len(of))
		for k, c := range of {
			m.Tasks[i].Candidates[k] = s.m.Tasks[i].Candidates[c]
		}
		if len(hint) == len(m.Tasks) {
			hint[i] = slices.Index(of, hint[i])
		}
	}
	part := s.meter.Part(0.5)
	sol, err := solveOn(part, &m, hint, s.thresholds)
	s.meter.Join(part)
	switch {
	case err != nil && s.meter.Cancelled() == nil && errors.Is(err, ErrUndecided):
		s.undecided, s.lower = err, min(s.lower, bound)
		return nil
	case err != nil:
		return err
	case sol.Status == Infeasible:
		s.none = combineReasons(s.none, sol)
		return nil
	}
	for i, k := range sol.Picks {
		if of, cut := left[i]; cut {
			sol.Picks[i] = of[k]
		}
	}
	if g, _ := s.overfull(sol.Picks); g < 0 {
		s.lower = min(s.lower, sol.Bound)
		if s.best == nil || better(sol, s.best) {
			s.best = sol
		}
		return nil
	}
	s.count++
	heap.Push(&s.open, &branch{left: left, sol: sol, order: s.count})
	return nil
}

// noRoom returns an infeasible solution because a task of a group has no site left.
func (s *spread) noRoom(task int) *Solution {
	for _, g := range s.groups {
		if slices.Contains(g.tasks, task) {
			return &Solution{Status: Infeasible, Message: fmt.Sprintf(
				"there are not enough %ss with a candidate for each of %s, at most %d machines in one", g.By,
				clip(strings.Join(g.Tasks, ", ")), g.Most), Reason: &Reason{Constraint: NoCandidates, Tasks: g.Tasks}}
		}
	}
	return nil
}

// overfull returns the group with the most tasks at an overfull site, and the positions of those tasks in the group.
// group is negative if no site is overfull.
func (s *spread) overfull(picks []int) (group int, there []int) {
	group = -1
	for n := range s.groups {
		at, used := map[string][]int{}, map[string]int{}
		g := &s.groups[n]
		for k, task := range g.tasks {
			site := s.m.siteBy(&s.m.Tasks[task].Candidates[picks[task]], g.By)
			at[site] = append(at[site], k)
			used[site] += g.machines(k)
		}
		for k := range g.tasks { // in order, so that the same model gives the same answer
			site := s.m.siteBy(&s.m.Tasks[g.tasks[k]].Candidates[picks[g.tasks[k]]], g.By)
			if used[site] > g.Most && len(at[site]) > len(there) {
				group, there = n, at[site]
			}
		}
	}
	return group, there
}

// branchOn branches on which task of an overfull site moves away.
func (s *spread) branchOn(b *branch) error {
	n, there := s.overfull(b.sol.Picks)
	g := &s.groups[n]
	first := g.tasks[there[0]]
	site := s.m.siteBy(&s.m.Tasks[first].Candidates[b.sol.Picks[first]], g.By)
	stay, used := maps.Clone(b.left), 0
	for i, k := range there {
		task := g.tasks[k]
		if !slices.ContainsFunc(there[:i], func(before int) bool { return s.same(b, n, before, k) }) {
			leaves := maps.Clone(stay)
			leaves[task] = s.filter(leaves, task, func(c *Candidate) bool { return s.m.siteBy(c, g.By) != site })
			if err := s.try(leaves, b.sol.Bound); err != nil {
				return err
			}
		}
		stay[task] = s.filter(stay, task, func(c *Candidate) bool { return s.m.siteBy(c, g.By) == site })
		if used += g.machines(k); used > g.Most {
			break // one of them must leave
		}
		for j, other := range g.tasks { // tasks that do not fit with those that stay must be elsewhere
			if !slices.Contains(there[:i+1], j) && used+g.machines(j) > g.Most {
				stay[other] = s.filter(stay, other, func(c *Candidate) bool { return s.m.siteBy(c, g.By) != site })
			}
		}
	}
	return nil
}

// filter returns the remaining candidates of a task that pass a test.
func (s *spread) filter(left map[int][]int, task int, keep func(*Candidate) bool) []int {
	out := []int{}
	of, cut := left[task]
	for c := range s.m.Tasks[task].Candidates {
		if (!cut || slices.Contains(of, c)) && keep(&s.m.Tasks[task].Candidates[c]) {
			out = append(out, c)
		}
	}
	return out
}

// same reports whether two tasks of a group can be exchanged in a branch without changing the objective. Then only
// one of them needs a branch.
func (s *spread) same(b *branch, group, x, y int) bool {
	g := &s.groups[group]
	i, j := g.tasks[x], g.tasks[y]
	of, cut := b.left[i]
	other, cutToo := b.left[j]
	if g.machines(x) != g.machines(y) || cut != cutToo || !slices.Equal(of, other) {
		return false
	}
	key := [2]int{min(i, j), max(i, j)}
	known, ok := s.alike[key]
	if !ok {
		known = s.compare(i, j)
		s.alike[key] = known
	}
	return known
}

// compare reports whether two tasks have the same candidates, edges and groups.
func (s *spread) compare(i, j int) bool {
	a, b := &s.m.Tasks[i], &s.m.Tasks[j]
	if !slices.Equal(a.Candidates, b.Candidates) {
		return false
	}
	in := func(ids []string) bool { return slices.Contains(ids, a.ID) == slices.Contains(ids, b.ID) }
	for _, ids := range s.m.Together {
		if !in(ids) {
			return false
		}
	}
	for n := range s.m.Spread {
		g := &s.m.Spread[n]
		x, y := slices.Index(g.Tasks, a.ID), slices.Index(g.Tasks, b.ID)
		if (x < 0) != (y < 0) || x >= 0 && g.machines(x) != g.machines(y) {
			return false
		}
	}
	return slices.Equal(s.edgesOf(a.ID), s.edgesOf(b.ID))
}

// edgesOf returns the edges of a task without the task itself, sorted.
func (s *spread) edgesOf(id string) (out []Edge) {
	for _, e := range s.m.Edges {
		switch id {
		case e.From:
			out = append(out, Edge{To: e.To, GiB: e.GiB})
		case e.To:
			out = append(out, Edge{From: e.From, GiB: e.GiB})
		}
	}
	slices.SortFunc(out, func(x, y Edge) int {
		return cmp.Or(strings.Compare(x.From, y.From), strings.Compare(x.To, y.To), cmp.Compare(x.GiB, y.GiB))
	})
	return out
}

// answer returns the result of the search.
func (s *spread) answer() (*Solution, error) {
	t := together{m: s.m, meter: s.meter, best: s.best, none: s.none, lower: s.lower, undecided: s.undecided}
	for _, b := range s.open {
		t.lower = min(t.lower, b.sol.Bound)
	}
	if t.best == nil && s.open.Len() > 0 && t.undecided == nil {
		t.meter.Stopped = true
	}
	return t.answer()
}

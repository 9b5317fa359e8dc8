package optimizer

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// newTogether prepares the groups of a model. If a task has no candidate or no site has candidates for all tasks of a
// group, it returns an infeasible solution.
func newTogether(m *Model, meter *search.Meter) (*together, *Solution, error) {
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	links, err := linkTasks(m)
	if err != nil {
		return nil, nil, err
	}
	t := &together{m: m, meter: meter, seen: map[string]bool{}, tried: map[string]bool{}}
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
	l := newLayout(m, links)
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
		if t.findSites(&g, l); len(g.sites) == 0 {
			return nil, &Solution{Status: Infeasible,
				Message: "no one place has a candidate for each of " + clip(strings.Join(ids, ", ")),
				Reason:  &Reason{Constraint: NoCandidates, Tasks: ids}}, nil
		}
		t.groups = append(t.groups, g)
	}
	for i := range m.Tasks {
		if !grouped[i] {
			t.rest += l.minimumOf(m.Objective)[i]
			t.usd += l.usd[i]
		}
	}
	return t, nil, nil
}

// layout holds the minimum cost, emissions and time of each task over its candidates, and the order of tasks.
type layout struct {
	usd, kg, hours []float64
	sumUSD, sumKg  float64
	links          *problem.Links
	out            problem.Adjacency
	start          []float64 // scratch space of longest
}

func newLayout(m *Model, links *problem.Links) *layout {
	n := len(m.Tasks)
	l := &layout{usd: make([]float64, n), kg: make([]float64, n), hours: make([]float64, n), links: links,
		out:   problem.Adjacent(n, links.Edges, func(e *problem.Link) int32 { return e.From }),
		start: make([]float64, n)}
	for i := range m.Tasks {
		l.usd[i], l.kg[i], l.hours[i] = m.least(i, "")
		l.sumUSD, l.sumKg = l.sumUSD+l.usd[i], l.sumKg+l.kg[i]
	}
	return l
}

// minimumOf returns the minimum of an objective for each task.
func (l *layout) minimumOf(o Objective) []float64 {
	switch o {
	case Cost:
		return l.usd
	case Carbon:
		return l.kg
	case Makespan:
	}
	return l.hours
}

// longest returns the length of the longest path with the minimum hours of each task.
func (l *layout) longest() (most float64) {
	clear(l.start)
	for _, v := range l.links.Topo {
		end := l.start[v] + l.hours[l.links.Order[v]]
		most = max(most, end)
		for _, e := range l.out.Of(v) {
			to := l.links.Edges[e].To
			l.start[to] = max(l.start[to], end)
		}
	}
	return most
}

// findSites finds the sites of a group and their bounds. It leaves out sites at which the group alone exceeds a limit,
// unless all do.
func (t *together) findSites(g *group, l *layout) {
	count := map[string]int{}
	for n, task := range g.tasks {
		for k := range t.m.Tasks[task].Candidates {
			if site := t.m.site(&t.m.Tasks[task].Candidates[k]); count[site] == n {
				count[site]++
			}
		}
	}
	var beyond []siteBound
	for site, n := range count {
		if n < len(g.tasks) {
			continue
		}
		s := t.bound(g, site, l)
		if s.lacks != nil {
			beyond = append(beyond, s)
		} else {
			g.sites = append(g.sites, s)
		}
	}
	hopeless := len(g.sites) == 0
	if hopeless {
		g.sites = beyond
	}
	for _, s := range beyond {
		why := &Solution{Status: Infeasible, Reason: s.lacks}
		if hopeless {
			t.hopeless = combineReasons(t.hopeless, why)
		} else {
			t.none = combineReasons(t.none, why)
		}
	}
	slices.SortFunc(g.sites, func(a, b siteBound) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(a.usd, b.usd), strings.Compare(a.name, b.name))
	})
}

// bound returns lower bounds for plans with a group at a site, and which limit they exceed for certain.
func (t *together) bound(g *group, site string, l *layout) siteBound {
	const less = 1 - 1e-12 // a plan's sum is added in another order
	s := siteBound{name: site}
	usd, kg := l.sumUSD, l.sumKg
	any := make([]float64, len(g.tasks))
	for n, task := range g.tasks {
		x, y, z := t.m.least(task, site)
		usd, kg = usd+x-l.usd[task], kg+y-l.kg[task]
		s.usd += x
		if t.m.Objective == Carbon {
			s.least += y
		}
		any[n], l.hours[task] = l.hours[task], z
	}
	hours := 0.0
	if (t.m.Objective == Makespan || t.m.DeadlineHours != nil) && t.meter.Spend(len(l.hours)+len(l.links.Edges)) {
		hours = l.longest()
	}
	for n, task := range g.tasks {
		l.hours[task] = any[n]
	}
	switch t.m.Objective {
	case Cost:
		s.least = s.usd
	case Makespan:
		s.least = hours
	case Carbon:
	}
	switch m := t.m; {
	case m.DeadlineHours != nil && hours*less >= search.Beyond(*m.DeadlineHours):
		s.lacks = &Reason{Constraint: Deadline, LeastHours: hours * less}
	case m.BudgetUSD != nil && usd*less >= search.Beyond(*m.BudgetUSD):
		s.lacks = &Reason{Constraint: Budget, LeastUSD: usd * less}
	case m.CarbonCapKg != nil && kg*less >= search.Beyond(*m.CarbonCapKg):
		s.lacks = &Reason{Constraint: CarbonCap, LeastKgCO2: kg * less}
	}
	return s
}

// least returns the minimum cost, emissions and time of a task over its candidates at a site; an empty site means
// any.
func (m *Model) least(task int, site string) (usd, kg, hours float64) {
	usd, kg, hours = math.Inf(1), math.Inf(1), math.Inf(1)
	for k := range m.Tasks[task].Candidates {
		c := &m.Tasks[task].Candidates[k]
		if site != "" && m.site(c) != site {
			continue
		}
		usd, kg, hours = min(usd, c.USD), min(kg, c.KgCO2), min(hours, c.Hours)
	}
	return usd, kg, hours
}

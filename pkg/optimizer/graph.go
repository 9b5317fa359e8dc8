package optimizer

import (
	"slices"
	"strings"
)

// links is the dependency graph over tasks in canonical order, which is the
// order of their ids, so that nothing computed from it depends on the order in
// which a model lists them. Parallel edges are merged.
type links struct {
	// order maps a canonical task index to its index in Model.Tasks.
	order []int32
	// edges are sorted by (from, to).
	edges []link
	// topo lists the canonical indices, producers before consumers.
	topo []int32
}

// link joins two tasks by all the edges between them. All of them are paid for,
// so their sizes add up in money; each must have arrived and they move at once,
// so the largest decides in time (paper, equation 3 holds edge by edge).
type link struct {
	from, to int32
	sumGiB   float64
	maxGiB   float64
}

// linkTasks resolves the edges' task ids, merges parallel edges and sorts the
// tasks topologically. It refuses duplicate and unknown ids, bad sizes,
// self-loops and cycles.
func linkTasks(m *Model) (*links, error) {
	order, index, err := rankTasks(m)
	if err != nil {
		return nil, err
	}
	if len(m.Edges) > MaxEdges {
		return nil, modelErrorf("edges", "%d edges, more than %d", len(m.Edges), MaxEdges)
	}
	l := &links{order: order, edges: make([]link, 0, len(m.Edges))}
	for i := range m.Edges {
		e, err := resolveEdge(m, index, i)
		if err != nil {
			return nil, err
		}
		l.edges = append(l.edges, e)
	}
	l.edges = mergeParallel(l.edges)
	l.topo = topological(len(m.Tasks), l.edges)
	if len(l.topo) < len(m.Tasks) {
		return nil, modelErrorf("edges", "form a cycle: %s", describeCycle(m, l))
	}
	return l, nil
}

// rankTasks sorts the tasks by id: order[rank] is a model index, index[id] a rank.
func rankTasks(m *Model) (order []int32, index map[string]int32, err error) {
	order = make([]int32, len(m.Tasks))
	for i := range order {
		order[i] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return strings.Compare(m.Tasks[a].ID, m.Tasks[b].ID)
	})
	index = make(map[string]int32, len(order))
	for rank, i := range order {
		id := m.Tasks[i].ID
		if rank > 0 && m.Tasks[order[rank-1]].ID == id {
			return nil, nil, modelErrorf(indexed("tasks", int(i))+".id", "%q is already tasks[%d]", clip(id), order[rank-1])
		}
		index[id] = int32(rank) // #nosec G115 -- at most MaxTasks
	}
	return order, index, nil
}

func resolveEdge(m *Model, index map[string]int32, i int) (link, error) {
	e := &m.Edges[i]
	from, ok := index[e.From]
	if !ok {
		return link{}, modelErrorf(indexed("edges", i)+".from", "no task has the id %q", clip(e.From))
	}
	to, ok := index[e.To]
	if !ok {
		return link{}, modelErrorf(indexed("edges", i)+".to", "no task has the id %q", clip(e.To))
	}
	if from == to {
		return link{}, modelErrorf(indexed("edges", i), "joins %q to itself", clip(e.From))
	}
	if why := badNumber(e.GiB); why != "" {
		return link{}, modelErrorf(indexed("edges", i)+".gib", "%s", why)
	}
	return link{from: from, to: to, sumGiB: e.GiB, maxGiB: e.GiB}, nil
}

// mergeParallel sorts the links and folds those with the same ends into one.
func mergeParallel(edges []link) []link {
	slices.SortFunc(edges, compareLinks)
	out := edges[:0]
	for _, e := range edges {
		if n := len(out); n > 0 && out[n-1].from == e.from && out[n-1].to == e.to {
			out[n-1].sumGiB += e.sumGiB
			out[n-1].maxGiB = max(out[n-1].maxGiB, e.maxGiB)
			continue
		}
		out = append(out, e)
	}
	return out
}

// compareLinks orders by ends, then by size so that a sum over parallel edges
// does not depend on the order in which a model lists them.
func compareLinks(a, b link) int {
	switch {
	case a.from != b.from:
		return int(a.from) - int(b.from)
	case a.to != b.to:
		return int(a.to) - int(b.to)
	case a.sumGiB < b.sumGiB:
		return -1
	case a.sumGiB > b.sumGiB:
		return 1
	}
	return 0
}

// topological returns the n tasks with producers first, or fewer where a cycle
// is in the way (Kahn's algorithm, first in first out).
func topological(n int, edges []link) []int32 {
	degree := make([]int32, n)
	start := make([]int32, n+1)
	for i := range edges {
		degree[edges[i].to]++
		start[edges[i].from+1]++
	}
	for i := range n {
		start[i+1] += start[i]
	}
	order := make([]int32, 0, n)
	for i := range degree {
		if degree[i] == 0 {
			order = append(order, int32(i)) // #nosec G115 -- MaxTasks
		}
	}
	for head := 0; head < len(order); head++ {
		v := order[head]
		// edges are sorted by from, so a task's out-links are consecutive
		for _, e := range edges[start[v]:start[v+1]] {
			degree[e.to]--
			if degree[e.to] == 0 {
				order = append(order, e.to)
			}
		}
	}
	return order
}

// describeCycle names the tasks of one cycle, cut short where it is long.
func describeCycle(m *Model, l *links) string {
	done := make([]bool, len(m.Tasks))
	for _, v := range l.topo {
		done[v] = true
	}
	// every task left has a producer left: walking back must repeat one
	producer := make([]int32, len(m.Tasks))
	at := int32(-1)
	for _, e := range l.edges {
		if !done[e.from] && !done[e.to] {
			producer[e.to] = e.from
			at = e.to
		}
	}
	for range m.Tasks {
		at = producer[at]
	}
	const most = 8
	id := func(v int32) string { return clip(m.Tasks[l.order[v]].ID) }
	names := []string{id(at)}
	for v := producer[at]; ; v = producer[v] {
		if len(names) == most && v != at {
			names = append(names, "…")
			v = at
		}
		names = append(names, id(v))
		if v == at {
			break
		}
	}
	slices.Reverse(names)
	return strings.Join(names, " → ")
}

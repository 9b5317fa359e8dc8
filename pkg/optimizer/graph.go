package optimizer

import (
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/text"
)

// linkTasks resolves the task ids of the edges, merges parallel edges and sorts the tasks topologically. It rejects
// duplicate and unknown ids, bad sizes, self-loops and cycles.
func linkTasks(m *Model) (*problem.Links, error) {
	order, index, err := rankTasks(m)
	if err != nil {
		return nil, err
	}
	if len(m.Edges) > text.MaxEdges {
		return nil, modelErrorf("edges", "%d edges, more than %d", len(m.Edges), text.MaxEdges)
	}
	l := &problem.Links{Order: order, Edges: make([]problem.Link, 0, len(m.Edges))}
	for i := range m.Edges {
		e, err := resolveEdge(m, index, i)
		if err != nil {
			return nil, err
		}
		l.Edges = append(l.Edges, e)
	}
	l.Edges = problem.MergeParallel(l.Edges)
	l.Topo = problem.Topological(len(m.Tasks), l.Edges)
	if len(l.Topo) < len(m.Tasks) {
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
			return nil, nil, modelErrorf(indexed("tasks", int(i))+".id", "%q is already tasks[%d]", clip(id),
				order[rank-1])
		}
		index[id] = int32(rank) // #nosec G115 -- at most MaxTasks
	}
	return order, index, nil
}

func resolveEdge(m *Model, index map[string]int32, i int) (problem.Link, error) {
	e := &m.Edges[i]
	from, ok := index[e.From]
	if !ok {
		return problem.Link{}, modelErrorf(indexed("edges", i)+".from", "no task has the id %q", clip(e.From))
	}
	to, ok := index[e.To]
	if !ok {
		return problem.Link{}, modelErrorf(indexed("edges", i)+".to", "no task has the id %q", clip(e.To))
	}
	if from == to {
		return problem.Link{}, modelErrorf(indexed("edges", i), "joins %q to itself", clip(e.From))
	}
	if why := badNumber(e.GiB); why != "" {
		return problem.Link{}, modelErrorf(indexed("edges", i)+".gib", "%s", why)
	}
	return problem.Link{From: from, To: to, SumGiB: e.GiB, MaxGiB: e.GiB}, nil
}

// describeCycle lists the tasks of one cycle. Long cycles are shortened.
func describeCycle(m *Model, l *problem.Links) string {
	done := make([]bool, len(m.Tasks))
	for _, v := range l.Topo {
		done[v] = true
	}
	// every remaining task has a remaining producer, so walking back must reach a task twice
	producer := make([]int32, len(m.Tasks))
	at := int32(-1)
	for _, e := range l.Edges {
		if !done[e.From] && !done[e.To] {
			producer[e.To] = e.From
			at = e.To
		}
	}
	for range m.Tasks {
		at = producer[at]
	}
	const most = 8
	id := func(v int32) string { return clip(m.Tasks[l.Order[v]].ID) }
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

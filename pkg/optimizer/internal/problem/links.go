package problem

import "slices"

// Links is the dependency graph over tasks in canonical order, which is the order of their ids. So nothing computed
// from it depends on the order of tasks in the model. Parallel edges are merged.
type Links struct {
	// Order maps a canonical task index to its index in Model.Tasks.
	Order []int32
	// Edges are sorted by (from, to).
	Edges []Link
	// Topo lists the canonical indices, producers before consumers.
	Topo []int32
}

// Link connects two tasks and stands for all edges between them. All of them cost money, so their sizes are added for
// the cost. They transfer at the same time and all must arrive, so the largest determines the time (paper, equation 3
// applies edge by edge).
type Link struct {
	From, To int32
	SumGiB   float64
	MaxGiB   float64
}

// MergeParallel sorts the links and merges those with the same ends.
func MergeParallel(edges []Link) []Link {
	slices.SortFunc(edges, compareLinks)
	out := edges[:0]
	for _, e := range edges {
		if n := len(out); n > 0 && out[n-1].From == e.From && out[n-1].To == e.To {
			out[n-1].SumGiB += e.SumGiB
			out[n-1].MaxGiB = max(out[n-1].MaxGiB, e.MaxGiB)
			continue
		}
		out = append(out, e)
	}
	return out
}

// compareLinks orders links by their ends, then by size, so that a sum over parallel edges does not depend on the
// model's order.
func compareLinks(a, b Link) int {
	switch {
	case a.From != b.From:
		return int(a.From) - int(b.From)
	case a.To != b.To:
		return int(a.To) - int(b.To)
	case a.SumGiB < b.SumGiB:
		return -1
	case a.SumGiB > b.SumGiB:
		return 1
	}
	return 0
}

// Topological returns the n tasks with producers first (Kahn's algorithm, first in first out). If there is a cycle,
// it returns fewer.
func Topological(n int, edges []Link) []int32 {
	degree := make([]int32, n)
	start := make([]int32, n+1)
	for i := range edges {
		degree[edges[i].To]++
		start[edges[i].From+1]++
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
			degree[e.To]--
			if degree[e.To] == 0 {
				order = append(order, e.To)
			}
		}
	}
	return order
}

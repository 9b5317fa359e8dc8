package optimizer

import "slices"

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

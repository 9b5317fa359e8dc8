package machines

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// counts are the numbers of instances that the baseline tries.
var counts = []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64}

// baseTypesMost is the number of types of the baseline.
const baseTypesMost = 30

// baseTypes returns the machines of the baseline: of each size in vCPUs the five with the cheapest work and 2 GiB a
// vCPU, thirty in all.
func baseTypes(m *shared.Model) []int {
	var chosen []int
	for _, size := range []float64{1, 2, 4, 8, 16, 32} {
		var here []int
		for i := range m.Machines {
			if k := &m.Machines[i]; k.CPUs >= size && k.CPUs < 2*size && k.MemoryGiB >= 2 {
				here = append(here, i)
			}
		}
		slices.SortStableFunc(here, func(a, b int) int {
			x, y := workPrice(&m.Machines[a]), workPrice(&m.Machines[b])
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		chosen = append(chosen, here[:min(5, len(here))]...)
	}
	return chosen
}

func workPrice(k *shared.Machine) float64 {
	return k.USDPerHour / k.Speed / math.Floor(min(k.CPUs, k.MemoryGiB/2))
}

// graph is a model's DAG by index, in a topological order.
type graph struct {
	order             []int
	parents, children [][]ref
}

type ref struct {
	task int
	gib  float64
}

func newGraph(m *shared.Model) *graph {
	n := len(m.Tasks)
	g := &graph{parents: make([][]ref, n), children: make([][]ref, n)}
	index := map[string]int{}
	for t := range m.Tasks {
		index[m.Tasks[t].ID] = t
	}
	open := make([]int, n)
	for _, e := range m.Edges {
		from, to := index[e.From], index[e.To]
		g.children[from] = append(g.children[from], ref{to, e.GiB})
		g.parents[to] = append(g.parents[to], ref{from, e.GiB})
		open[to]++
	}
	for t := range n {
		if open[t] == 0 {
			g.order = append(g.order, t)
		}
	}
	for i := 0; i < len(g.order); i++ {
		for _, c := range g.children[g.order[i]] {
			if open[c.task]--; open[c.task] == 0 {
				g.order = append(g.order, c.task)
			}
		}
	}
	return g
}

// HEFT returns the cheapest plan on k identical machines of one type that keeps the deadline, or nil if none does:
// each task, in the order of its longest path to the end, goes to the core on which it ends first.
func HEFT(m *shared.Model, types []int) *shared.Plan {
	g := newGraph(m)
	var best *shared.Plan
	for _, i := range types {
		for _, n := range counts {
			p, used := heft(m, g, i, min(n, m.Machines[i].Most))
			if m.DeadlineHours == nil || p.Hours <= *m.DeadlineHours {
				if best == nil || p.USD < best.USD {
					best = p
				}
			}
			if used < n {
				break
			}
		}
	}
	return best
}

func heft(m *shared.Model, g *graph, machine, n int) (*shared.Plan, int) {
	k := &m.Machines[machine]
	move := m.HoursPerGiB[k.Place][k.Place]
	rank := make([]float64, len(m.Tasks))
	order := slices.Clone(g.order)
	for i := len(order) - 1; i >= 0; i-- {
		t := order[i]
		for _, c := range g.children[t] {
			rank[t] = max(rank[t], rank[c.task]+c.gib*move)
		}
		rank[t] += m.Tasks[t].Hours / k.Speed
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rank[a] > rank[b]:
			return -1
		case rank[a] < rank[b]:
			return 1
		}
		return 0
	})
	cores := int(min(k.CPUs, k.MemoryGiB/2)) // the workflows' tasks hold one vCPU and 2 GiB
	free := make([]float64, cores*n)
	for c := range free {
		free[c] = k.BootHours
	}
	runs := make([]shared.Run, len(m.Tasks))
	for _, t := range order {
		core, start := 0, math.Inf(1)
		for c := range free {
			at := free[c]
			for _, p := range g.parents[t] {
				end := runs[p.task].To
				if runs[p.task].On != c/cores {
					end += p.gib * move
				}
				at = max(at, end)
			}
			if at < start {
				core, start = c, at
			}
			if free[c] == k.BootHours && c%cores == 0 {
				break // the others are as free
			}
		}
		free[core] = start + m.Tasks[t].Hours/k.Speed
		runs[t] = shared.Run{On: core / cores, From: start, To: free[core]}
	}
	return rented(m, machine, runs, n)
}

// rented adds the instances that run a task, each from the boot before its first task to the end of its last.
func rented(m *shared.Model, machine int, runs []shared.Run, n int) (*shared.Plan, int) {
	k := &m.Machines[machine]
	p := &shared.Plan{Tasks: runs}
	index := make([]int, n)
	for i := range n {
		first, last := math.Inf(1), math.Inf(-1)
		for _, r := range runs {
			if r.On == i {
				first, last = min(first, r.From), max(last, r.To)
			}
		}
		if last < first {
			continue
		}
		index[i] = len(p.Instances)
		p.Instances = append(p.Instances, shared.Instance{Machine: machine, From: first - k.BootHours, To: last})
		billed := max(k.MinimumHours, last-first+k.BootHours)
		if k.IncrementHours > 0 {
			billed = math.Ceil(billed/k.IncrementHours-1e-9) * k.IncrementHours
		}
		p.USD += k.USDPerHour * billed
		p.Hours = max(p.Hours, last)
	}
	for t := range runs {
		p.Tasks[t].On = index[runs[t].On]
	}
	return p, len(p.Instances)
}

// Baseline is the cheapest HEFT plan on identical machines of thirty types.
func Baseline(m *shared.Model) *shared.Plan { return HEFT(m, baseTypes(m)) }

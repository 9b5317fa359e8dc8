package workflow

import (
	"context"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// classify separates simple tasks from synchronisation tasks (WCSSI, algorithm 1, step 2). A synchronisation task has
// more than one parent or more than one child. A simple task that is the only parent or child of one counts as one
// too, because slowing it down slows the synchronisation task down.
func classify(g *dag.Graph, n int) (simple []bool) {
	sync := make([]bool, n)
	for i := range n {
		sync[i] = len(g.Parents(i)) > 1 || len(g.Children(i)) > 1
	}
	simple = make([]bool, n)
	for i := range n {
		simple[i] = !sync[i]
		for _, p := range g.Parents(i) {
			if sync[p] && len(g.Children(int(p))) == 1 {
				simple[i] = false
			}
		}
		for _, c := range g.Children(i) {
			if sync[c] && len(g.Parents(int(c))) == 1 {
				simple[i] = false
			}
		}
	}
	return simple
}

// branch is a chain of simple tasks, in order.
type branch []int

// branches groups the chains of simple tasks by their start and their end: the tasks before and after them, -1 for
// none. Branches of a group run at the same time and do not depend on each other, so the time that the longest one
// gets lowers the cost of all (WCSSI, step 5 and figure 3).
func branches(g *dag.Graph, order []int, simple []bool) (groups [][]branch) {
	next := func(tasks []int32) int { // a simple task has at most one parent and one child
		if len(tasks) == 0 {
			return -1
		}
		return int(tasks[0])
	}
	at := map[[2]int]int{}
	for _, i := range order {
		start := next(g.Parents(i))
		if !simple[i] || start >= 0 && simple[start] {
			continue
		}
		b, end := branch{i}, next(g.Children(i))
		for end >= 0 && simple[end] {
			b, end = append(b, end), next(g.Children(end))
		}
		key := [2]int{start, end}
		if _, known := at[key]; !known {
			at[key], groups = len(groups), append(groups, nil)
		}
		groups[at[key]] = append(groups[at[key]], b)
	}
	return groups
}

// bfrcMethod is a schedule made in five steps before the run, and the paper's bids within it.
type bfrcMethod struct {
	w      *Workflow
	kind   []int     // type of each task
	until  []float64 // latest finish of each task in the schedule
	tables map[tableKey]*bidding.Table
}

// distribute makes the schedule (WCSSI, algorithm 1). On the most powerful type the workflow takes its longest path
// (step 1). Tasks are classified (2). Each task gets time in proportion to its work (3), and the type with the lowest
// mean price that fits into it (4). The rest of the time is used to choose cheaper types (5): first for branches with
// the same start and end together, then for each simple task, which merges the fragments of its branch (figure 4), and
// last for synchronisation tasks.
func (w *Workflow) distribute(deadline float64) *bfrcMethod {
	own := max(deadline-w.reserve(), w.longest)
	p := &bfrcMethod{w: w, kind: make([]int, len(w.work)), until: make([]float64, len(w.work)),
		tables: map[tableKey]*bidding.Table{}}
	share := own / w.longest
	for i := range p.kind {
		p.kind[i] = w.cheapest(share)
	}
	for _, group := range w.branches {
		p.lower(group, own)
	}
	for _, simple := range []bool{true, false} {
		for _, i := range w.order {
			if w.simple[i] == simple {
				p.lower([]branch{{i}}, own)
			}
		}
	}
	p.latest(own)
	return p
}

// cheapest returns the type with the lowest mean price of work among those at most stretch times slower than the most
// powerful one.
func (w *Workflow) cheapest(stretch float64) int {
	best := w.fastest
	for k := range w.types {
		if 1/w.speed[k] <= stretch+1e-9 && w.mean[k] < w.mean[best] {
			best = k
		}
	}
	return best
}

// lower gives all tasks of a group of branches the type with the lowest mean price with which the schedule still meets
// the deadline, if it is cheaper than their own.
func (p *bfrcMethod) lower(group []branch, deadline float64) {
	w := p.w
	head, tail := p.paths()
	best := p.kind[group[0][0]]
	for k := range w.types {
		fits := w.mean[k] < w.mean[best]
		for _, b := range group {
			hours := head[b[0]] + tail[b[len(b)-1]]
			for _, i := range b {
				hours += w.restart + w.work[i]/w.speed[k]
			}
			fits = fits && hours <= deadline+1e-9
		}
		if fits {
			best = k
		}
	}
	for _, b := range group {
		for _, i := range b {
			p.kind[i] = best
		}
	}
}

func (p *bfrcMethod) span(task int) float64 {
	return p.w.restart + p.w.work[task]/p.w.speed[p.kind[task]]
}

func (p *bfrcMethod) paths() (head, tail []float64) {
	w := p.w
	head, tail = make([]float64, len(w.work)), make([]float64, len(w.work))
	for _, i := range w.order {
		for _, c := range w.graph.Children(i) {
			head[c] = max(head[c], head[i]+p.span(i))
		}
	}
	for k := len(w.order) - 1; k >= 0; k-- {
		i := w.order[k]
		for _, c := range w.graph.Children(i) {
			tail[i] = max(tail[i], tail[c]+p.span(int(c)))
		}
	}
	return head, tail
}

// latest sets the latest finish of each task. The slack of the longest path through it is spread along the path.
func (p *bfrcMethod) latest(deadline float64) {
	head, tail := p.paths()
	for i := range p.until {
		path := head[i] + p.span(i) + tail[i]
		p.until[i] = deadline
		if path > 0 {
			p.until[i] = min((head[i]+p.span(i))*deadline/path, deadline-p.w.tail[i])
		}
	}
}

type tableKey struct{ kind, work, time int }

func (p *bfrcMethod) order(ctx context.Context, m moment) (order, error) {
	w, k := p.w, p.kind[m.task]
	hours := m.start(k) + m.work/w.speed[k]
	// The smaller of the time in the schedule and 1.5 times the compute time.
	left := min(p.until[m.task]-m.now, math.Max(stretch*hours, hours+1))
	if left < hours || m.late() {
		return order{kind: k, maxUSD: w.types[k].OnDemandUSD, onDemand: true}, nil
	}
	key := tableKey{k, int(math.Ceil(hours)), int(math.Ceil(left)) + 1}
	t := p.tables[key]
	if t == nil {
		var err error
		t, err = bidding.BuildRun(ctx, w.model(w.plain[k].chain, k), key.work, key.time)
		if err != nil {
			return order{}, err
		}
		p.tables[key] = t
	}
	s := w.plain[k].chain.Level(w.types[k].USD[m.hour-1], 0)
	bid := bidFor(t, hours, left, s)
	if bid <= 0 {
		bid = w.types[k].OnDemandUSD
	}
	return order{kind: k, maxUSD: bid}, nil
}

// bidFor returns the bid for the next hour. A task that needs only a part of it pays for that part, at the same price
// as for a whole hour, so it bids like one that needs a whole hour with the same slack.
func bidFor(t *bidding.Table, hours, left float64, s int) float64 {
	part := max(0, 1-hours)
	return t.Bid(hours+part, left+part, s, bidding.OnNothing)
}

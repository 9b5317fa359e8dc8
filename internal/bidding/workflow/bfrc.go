package workflow

import (
	"context"
	"math"
	"slices"

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

// schedule has the type and the latest finish of each task.
type schedule struct {
	w     *Workflow
	own   float64   // time within which the schedule ends
	kind  []int     // type of each task
	until []float64 // latest finish of each task
	run   *progress
	// head is the time at which each task begins, or continues, and tail that of the longest path after it. They are
	// nil after a change of the types.
	head, tail []float64
}

// bfrcMethod is the paper's schedule and its bids within it. In each hour in which a task begins, the schedule is
// adjusted to the progress of the run (WCSSI, section 3: deadlines and types change at run time).
type bfrcMethod struct {
	*schedule
	hour   int // of the last adjustment
	tables map[tableKey]*bidding.Table
}

func (w *Workflow) newBFRC(deadline float64) *bfrcMethod {
	return &bfrcMethod{schedule: w.distribute(deadline), tables: map[tableKey]*bidding.Table{}}
}

// distribute makes the schedule (WCSSI, algorithm 1) before a run. On the most powerful type the workflow takes its
// longest path (step 1).
func (w *Workflow) distribute(deadline float64) *schedule {
	p := &schedule{w: w, own: w.own(deadline), kind: make([]int, len(w.work)), until: make([]float64, len(w.work))}
	p.adjust(w.progress())
	return p
}

// adjust makes the schedule of the tasks that have not begun. Tasks are classified (step 2). Each task gets time in
// proportion to its work (3), and the type with the lowest mean price that fits into it (4). The rest of the time is
// used to choose cheaper types (5): first for branches with the same start and end together, then for each simple task,
// which merges the fragments of its branch (figure 4), and last for synchronisation tasks.
func (p *schedule) adjust(run *progress) {
	w := p.w
	p.run, p.head = run, nil
	share := p.share()
	for i := range p.kind {
		if !run.begun[i] {
			p.kind[i] = w.cheapest(share)
		}
	}
	p.head = nil
	for _, group := range w.branches {
		var rest []branch
		for _, b := range group {
			if b = b[p.begun(b):]; len(b) > 0 {
				rest = append(rest, b)
			}
		}
		p.lower(rest)
	}
	for _, simple := range []bool{true, false} {
		for _, i := range w.order {
			if w.simple[i] == simple && !run.begun[i] {
				p.lower([]branch{{i}})
			}
		}
	}
	p.latest()
}

// begun counts the tasks of a branch that have begun.
func (p *schedule) begun(b branch) (n int) {
	for n < len(b) && p.run.begun[b[n]] {
		n++
	}
	return n
}

// share is the time for each hour of work and starts that leaves the longest path in time, from the tasks that can
// begin first. Those that run keep their types.
func (p *schedule) share() float64 {
	w, least := p.w, math.Inf(1)
	head, _ := p.paths()
	for i := range w.work {
		first := !p.run.begun[i]
		for _, from := range w.graph.Parents(i) {
			first = first && p.run.begun[from]
		}
		if hours := w.restart + w.work[i] + w.tail[i]; first && hours > 0 {
			least = min(least, (p.own-head[i])/hours)
		}
	}
	return least
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

// lower gives all tasks of a group of branches the type with the lowest mean price with which the schedule still ends
// in time, if it is cheaper than their own.
func (p *schedule) lower(group []branch) {
	if len(group) == 0 {
		return
	}
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
			fits = fits && hours <= p.own+1e-9
		}
		if fits {
			best = k
		}
	}
	if best == p.kind[group[0][0]] {
		return
	}
	p.head = nil
	for _, b := range group {
		for _, i := range b {
			p.kind[i] = best
		}
	}
}

// span returns the time that a task still takes with the chosen type.
func (p *schedule) span(task int) float64 {
	return p.w.startOf(p.run, task) + p.run.left[task]/p.w.speed[p.kind[task]]
}

// paths returns head and tail.
func (p *schedule) paths() (head, tail []float64) {
	if p.head != nil {
		return p.head, p.tail
	}
	w := p.w
	head, tail = make([]float64, len(w.work)), make([]float64, len(w.work))
	for _, i := range w.order {
		if head[i] = max(head[i], p.run.now); p.run.begun[i] {
			head[i] = p.run.at[i]
		}
		for _, c := range w.graph.Children(i) {
			head[c] = max(head[c], head[i]+p.span(i))
		}
	}
	for _, i := range slices.Backward(w.order) {
		for _, c := range w.graph.Children(i) {
			tail[i] = max(tail[i], tail[c]+p.span(int(c)))
		}
	}
	p.head, p.tail = head, tail
	return head, tail
}

// latest sets the latest finish of each task that has not begun. The slack of the longest path through it is spread
// along the path.
func (p *schedule) latest() {
	head, tail := p.paths()
	now := p.run.now
	for i := range p.until {
		if p.run.begun[i] {
			continue
		}
		path := head[i] + p.span(i) + tail[i] - now
		p.until[i] = p.own
		if path > 0 {
			p.until[i] = min(now+(head[i]+p.span(i)-now)*(p.own-now)/path, p.own-p.w.tail[i])
		}
	}
}

type tableKey struct{ kind, work, time int }

func (p *bfrcMethod) order(ctx context.Context, m moment) (order, error) {
	if hour := int(m.now); hour > p.hour && !m.run.begun[m.task] {
		p.hour = hour
		p.adjust(m.run)
	}
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

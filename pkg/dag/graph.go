package dag

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Graph is the adjacency of a job in compressed sparse row form: flat arrays, 16 bytes per edge, for walks over large
// jobs. It is a snapshot: it does not follow changes of the job.
type Graph struct {
	out, in rows
}

// rows holds, for each task i, entries starts[i] to starts[i+1] of tasks and edges.
type rows struct {
	starts []int32
	tasks  []int32 // the task at the other end
	edges  []int32 // the index of the edge
}

// Graph returns the adjacency of j. All edges must refer to tasks of the job.
func (j *Job) Graph() *Graph {
	return &Graph{
		out: makeRows(j, func(e *Edge) (int, int) { return e.From, e.To }),
		in:  makeRows(j, func(e *Edge) (int, int) { return e.To, e.From }),
	}
}

// EdgesTo returns the indexes of the edges to a task, like Graph.In, without building the adjacency of all tasks.
func (j *Job) EdgesTo(task int) []int32 {
	return j.edgesWhere(func(e *Edge) bool { return e.To == task })
}

// EdgesFrom returns the indexes of the edges from a task, like Graph.Out, without building the adjacency of all
// tasks.
func (j *Job) EdgesFrom(task int) []int32 {
	return j.edgesWhere(func(e *Edge) bool { return e.From == task })
}

func (j *Job) edgesWhere(is func(*Edge) bool) (edges []int32) {
	for i := range j.Edges {
		if is(&j.Edges[i]) {
			edges = append(edges, int32(i)) //nolint:gosec // at most MaxEdges
		}
	}
	return edges
}

func makeRows(j *Job, ends func(*Edge) (row, other int)) rows {
	r := rows{
		starts: make([]int32, len(j.Tasks)+1),
		tasks:  make([]int32, len(j.Edges)),
		edges:  make([]int32, len(j.Edges)),
	}
	for i := range j.Edges {
		row, _ := ends(&j.Edges[i])
		r.starts[row]++
	}
	for i := range j.Tasks {
		r.starts[i+1] += r.starts[i]
	}
	// starts[i] is the end of row i now. Filling the rows from their ends turns it into the beginning.
	for i := len(j.Edges) - 1; i >= 0; i-- {
		row, other := ends(&j.Edges[i])
		r.starts[row]--
		at := r.starts[row]
		r.tasks[at], r.edges[at] = int32(other), int32(i) //nolint:gosec // at most MaxEdges
	}
	return r
}

func (r *rows) at(task int) (tasks, edges []int32) {
	from, to := r.starts[task], r.starts[task+1]
	return r.tasks[from:to:to], r.edges[from:to:to]
}

// Parents returns the tasks that task waits for, as indexes, in the order of the edges. The caller must not change
// the result.
func (g *Graph) Parents(task int) []int32 { t, _ := g.in.at(task); return t }

// Children returns the tasks that wait for task.
func (g *Graph) Children(task int) []int32 { t, _ := g.out.at(task); return t }

// In returns the indexes of the edges to task, in step with Parents.
func (g *Graph) In(task int) []int32 { _, e := g.in.at(task); return e }

// Out returns the indexes of the edges from task, in step with Children.
func (g *Graph) Out(task int) []int32 { _, e := g.out.at(task); return e }

// Order returns the tasks in an order in which each comes after those it waits for; among tasks that are free to come
// next, the first in the file comes first. If the job has a cycle, the tasks on it and those that wait for them are
// missing.
func (j *Job) Order() []int {
	return j.order(j.Graph())
}

func (j *Job) order(g *Graph) []int {
	waiting := make([]int32, len(j.Tasks))
	var ready intHeap
	for i := range j.Tasks {
		waiting[i] = int32(len(g.Parents(i))) //nolint:gosec // at most MaxEdges
		if waiting[i] == 0 {
			ready = append(ready, i) // ascending, so a heap
		}
	}
	order := make([]int, 0, len(j.Tasks))
	for len(ready) > 0 {
		task := heap.Pop(&ready).(int)
		order = append(order, task)
		for _, c := range g.Children(task) {
			if waiting[c]--; waiting[c] == 0 {
				heap.Push(&ready, int(c))
			}
		}
	}
	return order
}

// intHeap is a heap of task indexes.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, k int) bool { return h[i] < h[k] }
func (h intHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push and Pop are for container/heap.
func (h *intHeap) Push(x any) { *h = append(*h, x.(int)) }

// Pop removes the last element.
func (h *intHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Cycle returns the tasks of a cycle, each before one that waits for it, or nil if there is none. It is a shortest
// cycle through the first task that it finds on a cycle.
func (j *Job) Cycle() []int {
	g := j.Graph()
	order := j.order(g)
	if len(order) == len(j.Tasks) {
		return nil
	}
	ordered := make([]bool, len(j.Tasks))
	for _, t := range order {
		ordered[t] = true
	}
	// Every remaining task has a remaining parent, so a walk from parent to parent must reach a task twice.
	onPath := make([]bool, len(j.Tasks))
	task := slices.Index(ordered, false)
	for !onPath[task] {
		onPath[task] = true
		for _, p := range g.Parents(task) {
			if !ordered[p] {
				task = int(p)
				break
			}
		}
	}
	return g.shortestCycle(task)
}

// shortestCycle returns a shortest cycle through a task, which must be on one, by breadth-first search.
func (g *Graph) shortestCycle(start int) []int {
	before := make(map[int]int)
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		task := queue[0]
		for _, c := range g.Children(task) {
			child := int(c)
			if child == start {
				var cycle []int
				for t := task; t != start; t = before[t] {
					cycle = append(cycle, t)
				}
				cycle = append(cycle, start)
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := before[child]; !seen {
				before[child] = task
				queue = append(queue, child)
			}
		}
	}
	return []int{start}
}

// CycleError returns an error that describes a cycle. It has no position.
func (j *Job) CycleError(cycle []int) error {
	if len(cycle) == 1 {
		return &Error{
			Reason: "task " + fault.Quote(j.Tasks[cycle[0]].Name) + " waits for itself",
			Hint:   "remove the dependency",
			Cause:  ErrCycle,
		}
	}
	const most = 10
	var names []string
	for i, t := range cycle {
		if len(cycle) > most && i == most-2 {
			names = append(names, fmt.Sprintf("… %d more …", len(cycle)-i-1))
			continue
		}
		if len(cycle) <= most || i < most-2 || i == len(cycle)-1 {
			names = append(names, j.Tasks[t].Name)
		}
	}
	names = append(names, j.Tasks[cycle[0]].Name)
	return &Error{
		Reason: "tasks wait for each other: " + strings.Join(names, " → "),
		Hint:   "remove one of these dependencies",
		Cause:  ErrCycle,
	}
}

// CriticalPath returns the length of the longest chain of tasks and its tasks, first to last. length returns the
// duration of a task, by index. The result is the minimum makespan on unlimited machines, without transfers. A job
// with a cycle is an error.
func (j *Job) CriticalPath(length func(task int) time.Duration) (time.Duration, []int, error) {
	g := j.Graph()
	order := j.order(g)
	if len(order) < len(j.Tasks) {
		return 0, nil, fmt.Errorf("dag: no critical path: %w", ErrCycle)
	}
	finish := make([]time.Duration, len(j.Tasks))
	before := make([]int, len(j.Tasks)) // the parent that finishes last, or -1
	last := -1
	for _, t := range order {
		start := time.Duration(0)
		before[t] = -1
		for _, p := range g.Parents(t) {
			if before[t] < 0 || finish[p] > start {
				start, before[t] = finish[p], int(p)
			}
		}
		finish[t] = addTime(start, length(t))
		if last < 0 || finish[t] > finish[last] {
			last = t
		}
	}
	if last < 0 {
		return 0, nil, nil
	}
	var path []int
	for t := last; t >= 0; t = before[t] {
		path = append(path, t)
	}
	slices.Reverse(path)
	return finish[last], path, nil
}

// addTime adds two times that are not negative. The result is at most the maximum Duration.
func addTime(a, b time.Duration) time.Duration {
	const most = time.Duration(1<<63 - 1)
	if a > most-b {
		return most
	}
	return a + b
}

// TotalRecorded returns the sum of the recorded times of the tasks, which is the time to run them one after the
// other.
func (j *Job) TotalRecorded() time.Duration {
	var sum time.Duration
	for i := range j.Tasks {
		sum = addTime(sum, j.Tasks[i].Recorded)
	}
	return sum
}

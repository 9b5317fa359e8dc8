package dag

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tasksNamed returns a job of tasks without scripts, for tests of graphs.
func tasksNamed(names ...string) *Job {
	j := &Job{Name: "j", Objective: MinimizeCost, Format: Native}
	for _, name := range names {
		j.Tasks = append(j.Tasks, Task{Name: name, Run: "x", Nodes: 1, Resources: []Resources{{}}})
	}
	return j
}

func numbered(n int) *Job {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
	}
	return tasksNamed(names...)
}

// genGraph generates jobs with any edges, including cycles and duplicate edges.
func genGraph() *rapid.Generator[*Job] {
	return rapid.Custom(func(t *rapid.T) *Job {
		j := numbered(rapid.IntRange(1, 7).Draw(t, "tasks"))
		task := rapid.IntRange(0, len(j.Tasks)-1)
		for range rapid.IntRange(0, 10).Draw(t, "edges") {
			j.Edges = append(
				j.Edges,
				Edge{
					From: task.Draw(t, "from"),
					To:   task.Draw(t, "to"),
					Data: GiB(rapid.IntRange(0, 9).Draw(t, "data")),
				},
			)
		}
		return j
	})
}

// reach reports whether a path of at least one edge leads from a to b. It tries all paths.
func reach(j *Job, a, b int) bool {
	seen := make([]bool, len(j.Tasks))
	var from func(int) bool
	from = func(t int) bool {
		for _, e := range j.Edges {
			if e.From == t && (e.To == b || !seen[e.To]) {
				if e.To == b {
					return true
				}
				seen[e.To] = true
				if from(e.To) {
					return true
				}
			}
		}
		return false
	}
	return from(a)
}

func TestOrderPutsParentsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genGraph().Draw(t, "job")
		order := j.Order()
		place := map[int]int{}
		for i, task := range order {
			place[task] = i
		}
		for task := range j.Tasks {
			behind := reach(j, task, task)
			for other := range j.Tasks {
				behind = behind || reach(j, other, other) && reach(j, other, task)
			}
			if _, ok := place[task]; ok == behind {
				t.Fatalf("task %d on or after a cycle: %v, in the order: %v", task, behind, ok)
			}
		}
		for _, e := range j.Edges {
			if to, ok := place[e.To]; ok && place[e.From] >= to {
				t.Fatalf("%d comes before %d in %v", e.To, e.From, order)
			}
		}
	})
}

func TestOrderPrefersFileOrder(t *testing.T) {
	j := numbered(5)
	j.Edges = []Edge{{From: 0, To: 4}, {From: 3, To: 1}}
	if got, want := j.Order(), []int{0, 2, 3, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestCycleIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genGraph().Draw(t, "job")
		cycle := j.Cycle()
		if got, want := cycle != nil, len(j.Order()) < len(j.Tasks); got != want {
			t.Fatalf("cycle %v, but the order has %d of %d tasks", cycle, len(j.Order()), len(j.Tasks))
		}
		if slices.Sort(cycle); len(slices.Compact(slices.Clone(cycle))) != len(cycle) {
			t.Fatalf("%v visits a task twice", cycle)
		}
		cycle = j.Cycle()
		for i, from := range cycle {
			to := cycle[(i+1)%len(cycle)]
			if !slices.ContainsFunc(j.Edges, func(e Edge) bool { return e.From == from && e.To == to }) {
				t.Fatalf("%v has no edge from %d to %d", cycle, from, to)
			}
		}
	})
}

func TestCycleErrorShortensLongCycles(t *testing.T) {
	j := numbered(30)
	for i := range 30 {
		j.Edges = append(j.Edges, Edge{From: i, To: (i + 1) % 30})
	}
	err := j.Validate()
	want := "tasks.t0.after: tasks wait for each other: t0 → t1 → t2 → t3 → t4 → t5 → t6 → t7 → … 21 more … → t29 → t0 (remove one of these dependencies)"
	if err == nil || err.Error() != want || !errors.Is(err, ErrCycle) {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

func TestGraphMatchesEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genGraph().Draw(t, "job")
		g := j.Graph()
		var out, in []Edge
		for task := range j.Tasks {
			from, to := j.EdgesFrom(task), j.EdgesTo(task)
			if !slices.Equal(from, g.Out(task)) || !slices.Equal(to, g.In(task)) {
				t.Fatalf("edges %v from %d and %v to it, of %v and %v", from, task, to, g.Out(task), g.In(task))
			}
			for k, child := range g.Children(task) {
				e := j.Edges[g.Out(task)[k]]
				if e.From != task || e.To != int(child) {
					t.Fatalf("edge %+v among those from %d to %d", e, task, child)
				}
				out = append(out, e)
			}
			for k, parent := range g.Parents(task) {
				e := j.Edges[g.In(task)[k]]
				if e.To != task || e.From != int(parent) {
					t.Fatalf("edge %+v among those from %d to %d", e, parent, task)
				}
				in = append(in, e)
			}
		}
		if len(out) != len(j.Edges) || len(in) != len(j.Edges) {
			t.Fatalf("%d edges out, %d in, of %d", len(out), len(in), len(j.Edges))
		}
	})
}

func TestMergeEdgesAddsData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genGraph().Draw(t, "job")
		type ends struct{ to, from int }
		sums := map[ends]GiB{}
		for _, e := range j.Edges {
			sums[ends{e.To, e.From}] += e.Data
		}
		j.MergeEdges()
		last := ends{-1, -1}
		for _, e := range j.Edges {
			at := ends{e.To, e.From}
			if e.Data != sums[at] {
				t.Fatalf("%+v, want %v GiB", e, sums[at])
			}
			if at.to < last.to || at.to == last.to && at.from <= last.from {
				t.Fatalf("%+v after %+v", at, last)
			}
			last = at
		}
		if len(j.Edges) != len(sums) {
			t.Fatalf("%d edges, want %d", len(j.Edges), len(sums))
		}
	})
}

func TestMergeEdgesCombinesOutputs(t *testing.T) {
	j := numbered(2)
	one := func(outputs []string) Edge { return Edge{From: 0, To: 1, Outputs: outputs} }
	for _, c := range []struct {
		edges []Edge
		want  []string
	}{
		{[]Edge{one([]string{"a"}), one([]string{"b", "a"})}, []string{"a", "b"}},
		{[]Edge{one([]string{}), one([]string{"a"})}, []string{"a"}},
		{[]Edge{one([]string{"a"}), one(nil)}, nil},
		{[]Edge{one([]string{})}, []string{}},
	} {
		j.Edges = slices.Clone(c.edges)
		j.MergeEdges()
		if got := j.Edges[0].Outputs; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %#v, want %#v", c.edges, got, c.want)
		}
	}
}

func TestCriticalPathIsLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genGraph().Draw(t, "job")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 9), len(j.Tasks), len(j.Tasks)).Draw(t, "lengths")
		length := func(i int) time.Duration { return time.Duration(lengths[i]) }
		got, path, err := j.CriticalPath(length)
		if len(j.Order()) < len(j.Tasks) {
			if !errors.Is(err, ErrCycle) {
				t.Fatalf("a cycle, and error %v", err)
			}
			return
		}
		var longest func(int) time.Duration // the duration of the longest path from a task, over all paths
		longest = func(i int) (best time.Duration) {
			for _, e := range j.Edges {
				if e.From == i {
					best = max(best, longest(e.To))
				}
			}
			return best + length(i)
		}
		want, sum := time.Duration(0), time.Duration(0)
		for i := range j.Tasks {
			want = max(want, longest(i))
		}
		for k, i := range path {
			sum += length(i)
			if k > 0 && !slices.ContainsFunc(j.Edges, func(e Edge) bool { return e.From == path[k-1] && e.To == i }) {
				t.Fatalf("%v is not a path", path)
			}
		}
		if err != nil || got != want || sum != got {
			t.Fatalf("length %v (of %v: %v), %v; want %v", got, path, sum, err, want)
		}
	})
}

func TestSumsOfTimesDoNotOverflow(t *testing.T) {
	j := numbered(100)
	for i := range j.Tasks {
		j.Tasks[i].Recorded = MaxDuration
		if i > 0 {
			j.Edges = append(j.Edges, Edge{From: i - 1, To: i})
		}
	}
	length, path, err := j.CriticalPath(func(i int) time.Duration { return j.Tasks[i].Recorded })
	if err != nil || length != 1<<63-1 || len(path) == 0 {
		t.Errorf("critical path %v of %d tasks, %v", length, len(path), err)
	}
	if got := j.TotalRecorded(); got != 1<<63-1 {
		t.Errorf("total %v", got)
	}
}

package recorded_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dax"
)

// flowing is a workflow as in a file: the files that each task reads and writes, and the parents of each child.
type flowing struct {
	reads, writes [][]string
	parents       []map[int]bool
}

// carry is an edge and the files that it carries.
type carry struct {
	from, to int
	data     dag.GiB
}

func (w *flowing) xml() string {
	var b strings.Builder
	b.WriteString("<adag>\n")
	for i := range w.reads {
		fmt.Fprintf(&b, "<job id='t%d' runtime='1'>", i)
		for _, f := range w.reads[i] {
			fmt.Fprintf(&b, "<uses file='%s' link='input' size='1073741824'/>", f)
		}
		for _, f := range w.writes[i] {
			fmt.Fprintf(&b, "<uses file='%s' link='output' size='1073741824'/>", f)
		}
		b.WriteString("</job>\n")
	}
	for i, parents := range w.parents {
		fmt.Fprintf(&b, "<child ref='t%d'>", i)
		for _, p := range slices.Sorted(maps.Keys(parents)) {
			fmt.Fprintf(&b, "<parent ref='t%d'/>", p)
		}
		b.WriteString("</child>\n")
	}
	return b.String() + "</adag>\n"
}

// expected returns the edges by the documented rule. A task waits for its parents, and for the writers of the files
// that it reads. If some writers of a file are parents, only these count. If the task also writes the file, only
// earlier writers count.
func (w *flowing) expected() map[carry]bool {
	type pair struct{ from, to int }
	data := map[pair]dag.GiB{}
	for to := range w.reads {
		for from := range w.parents[to] {
			data[pair{from, to}] += 0
		}
		for _, f := range w.reads[to] {
			var writers, parents, before []int
			for from := range w.writes {
				if from == to || !slices.Contains(w.writes[from], f) {
					continue
				}
				writers = append(writers, from)
				if w.parents[to][from] {
					parents = append(parents, from)
				}
				if from < to {
					before = append(before, from)
				}
			}
			if len(parents) > 0 {
				writers = parents
			} else if slices.Contains(w.writes[to], f) {
				writers = before
			}
			for _, from := range writers {
				data[pair{from, to}]++
			}
		}
	}
	edges := map[carry]bool{}
	for p, d := range data {
		edges[carry{p.from, p.to, d}] = true
	}
	return edges
}

func TestDependenciesByFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "tasks")
		names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string])
		w := &flowing{}
		for i := range n {
			w.reads = append(w.reads, names.Draw(t, "reads"))
			w.writes = append(w.writes, names.Draw(t, "writes"))
			parents := map[int]bool{}
			for p := range i {
				if rapid.IntRange(0, 3).Draw(t, "parent") == 0 {
					parents[p] = true
				}
			}
			w.parents = append(w.parents, parents)
		}
		checkFlows(t, w)
	})
}

func checkFlows(t interface {
	Helper()
	Fatalf(string, ...any)
}, w *flowing,
) {
	t.Helper()
	want := w.expected()
	j, err := dax.Parse("x.xml", []byte(w.xml()))
	if err != nil {
		cyclic := &dag.Job{Tasks: make([]dag.Task, len(w.reads))}
		for e := range want {
			cyclic.Edges = append(cyclic.Edges, dag.Edge{From: e.from, To: e.to})
		}
		if cyclic.Cycle() == nil {
			t.Fatalf("%v in\n%s", err, w.xml())
		}
		return
	}
	got := map[carry]bool{}
	for _, e := range j.Edges {
		e.Outputs = nil
		got[carry{e.From, e.To, e.Data}] = true
	}
	if !maps.Equal(got, want) {
		t.Fatalf("edges %v, want %v, of\n%s", got, want, w.xml())
	}
}

// If a file has very many writers, the writers among a task's parents must be found fast.
func TestFilesOfManyWriters(t *testing.T) {
	const writers = 512
	w := &flowing{}
	for i := range writers + 2 {
		w.reads, w.writes, w.parents = append(w.reads, nil), append(w.writes, nil), append(w.parents, map[int]bool{})
		if i < writers {
			w.writes[i] = []string{"log"}
		}
	}
	w.reads[writers] = []string{"log"} // waits for all of them
	w.reads[writers+1] = []string{"log"}
	w.parents[writers+1] = map[int]bool{3: true, 300: true, writers: true} // waits for these
	checkFlows(t, w)
}

// Several tasks read and write the same file. Each must wait for the earlier ones, so that there is no cycle.
func TestTasksThatChangeFileInTurnFormNoCycle(t *testing.T) {
	w := &flowing{}
	for range 5 {
		w.reads, w.writes, w.parents = append(
			w.reads,
			[]string{"x"},
		), append(
			w.writes,
			[]string{"x"},
		), append(
			w.parents,
			nil,
		)
	}
	j, err := dax.Parse("x.xml", []byte(w.xml()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := j.Order(), []int{0, 1, 2, 3, 4}; !slices.Equal(got, want) || len(j.Edges) != 10 {
		t.Errorf("order %v with %d edges", got, len(j.Edges))
	}
	if in := j.Tasks[0].Inputs; len(in) != 1 || in[0].URI != "x" || len(j.Tasks[1].Inputs) != 0 {
		t.Errorf("inputs are %v and %v, want x for the first task only", in, j.Tasks[1].Inputs)
	}
}

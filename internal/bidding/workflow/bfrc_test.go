package workflow

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func jobOf(edges [][2]int, minutes ...int) *dag.Job {
	job := &dag.Job{}
	for _, m := range minutes {
		job.Tasks = append(job.Tasks, dag.Task{Nodes: 1, Recorded: time.Duration(m) * time.Minute})
	}
	for _, e := range edges {
		job.Edges = append(job.Edges, dag.Edge{From: e[0], To: e[1]})
	}
	return job
}

// The graph is figure 3 of the paper: a fork and a join, with chains between them. The tasks of chains are simple,
// except those that are the only parent or child of a synchronisation task.
func TestClassifyMatchesFigure3(t *testing.T) {
	// Edges: 0 → 1, 1 forks to 2 and 3, 2 → 4, 4 and 3 join in 5, 5 → 6 → 7.
	edges := [][2]int{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {4, 5}, {3, 5}, {5, 6}, {6, 7}}
	got := classify(jobOf(edges, 1, 1, 1, 1, 1, 1, 1, 1).Graph(), 8)
	want := []bool{false, false, true, true, true, false, false, true}
	if !slices.Equal(got, want) {
		t.Errorf("simple tasks %v, want %v", got, want)
	}
}

// Two forks of task 0 end in different joins, and the last task has no end.
func TestBranchesOfGroupHaveSameStartAndEnd(t *testing.T) {
	edges := [][2]int{{0, 1}, {1, 2}, {0, 3}, {2, 4}, {3, 4}, {0, 5}, {0, 6}, {5, 7}, {6, 7}, {4, 8}, {8, 9}}
	job := jobOf(edges, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	got := branches(job.Graph(), job.Order(), classify(job.Graph(), 10))
	want := [][]branch{{{1, 2}, {3}}, {{5}, {6}}, {{9}}}
	if !slices.EqualFunc(got, want, func(a, b []branch) bool { return slices.EqualFunc(a, b, slices.Equal[branch]) }) {
		t.Errorf("groups %v, want %v", got, want)
	}
}

// drawn returns a workflow on types with constant prices, and a deadline that is a multiple of its run time. More
// powerful types cost more for the same work.
func drawn(t *rapid.T, restart float64) (*Workflow, float64) {
	n := rapid.IntRange(1, 9).Draw(t, "tasks")
	var edges [][2]int
	for to := 1; to < n; to++ {
		for from := range to {
			if rapid.IntRange(0, n/2).Draw(t, "edge") == 0 {
				edges = append(edges, [2]int{from, to})
			}
		}
	}
	minutes := rapid.SliceOfN(rapid.IntRange(1, 60), n, n).Draw(t, "minutes")
	var types []Type
	for i, share := range []float64{0.1, 0.15, 0.2, 0.3} {
		usd := math.Exp2(float64(i))
		types = append(types, Type{OnDemandUSD: usd, USD: slices.Repeat([]float64{share * usd}, 600)})
	}
	hours := rapid.Float64Range(1, 8).Draw(t, "hours")
	w, err := New(t.Context(), jobOf(edges, minutes...), types, hours, restart, 100)
	if err != nil {
		t.Fatal(err)
	}
	return w, rapid.Float64Range(1, 9).Draw(t, "stretch")
}

// through is the time at which the longest of all paths through a task ends, found by trying them all.
func (w *Workflow) through(run *progress, kind []int, task int) float64 {
	span := func(i int) float64 {
		if run.begun[i] {
			return run.left[i] / w.speed[kind[i]]
		}
		return w.restart + w.work[i]/w.speed[kind[i]]
	}
	var begin, after func(i int) float64
	begin = func(i int) (at float64) {
		if run.begun[i] {
			return run.at[i]
		}
		at = run.now
		for _, p := range w.graph.Parents(i) {
			at = max(at, begin(int(p))+span(int(p)))
		}
		return at
	}
	after = func(i int) (hours float64) {
		for _, c := range w.graph.Children(i) {
			hours = max(hours, span(int(c))+after(int(c)))
		}
		return hours
	}
	return begin(task) + span(task) + after(task)
}

// ends returns the tasks before and after the chain of a simple task.
func (w *Workflow) ends(i int) [2]int {
	walk := func(i int, next func(int) []int32) int {
		for i >= 0 && w.simple[i] {
			to := next(i)
			if i = -1; len(to) > 0 {
				i = int(to[0])
			}
		}
		return i
	}
	return [2]int{walk(i, w.graph.Parents), walk(i, w.graph.Children)}
}

// Steps 4 and 5 by their definition, before the run and for the tasks that have not begun: all get the cheapest type
// that is slower than the most powerful one by no more than the paths allow. Then tasks with the same start and end get
// the cheapest type with which no path through them is too long, then each simple task, then each other one.
func TestScheduleMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, stretch := drawn(t, rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "restart"))
		got, run := w.distribute(stretch*w.Hours()), w.progress()
		run.now = rapid.Float64Range(0, got.own).Draw(t, "now")
		for _, i := range w.order[:rapid.IntRange(0, len(w.order)).Draw(t, "begun")] {
			run.begun[i], run.at[i] = true, max(0, run.now-rapid.Float64Range(0, 1).Draw(t, "ago"))
			run.left[i] *= 1 - rapid.Float64Range(0, 1).Draw(t, "done")
			for _, p := range w.graph.Parents(i) {
				run.left[p] = 0
			}
		}
		want, fast := slices.Clone(got.kind), slices.Clone(got.kind)
		for i := range want {
			if !run.begun[i] {
				fast[i] = w.fastest
			}
		}
		share := math.Inf(1)
		for i := range want {
			ready := !run.begun[i] && !slices.ContainsFunc(w.graph.Parents(i), func(p int32) bool { return !run.begun[p] })
			if began := w.through(run, fast, i) - (w.restart + w.work[i] + w.tail[i]); ready {
				share = min(share, (got.own-began)/(w.restart+w.work[i]+w.tail[i]))
			}
		}
		for i := range want {
			if !run.begun[i] {
				want[i] = w.cheapest(share)
			}
		}
		lower := func(first int, same func(i int) bool) {
			best := want
			for k := range w.types {
				try := slices.Clone(want)
				for i := range try {
					if same(i) && !run.begun[i] {
						try[i] = k
					}
				}
				fits := w.mean[k] < w.mean[best[first]]
				for i := range try {
					fits = fits && (run.begun[i] || !same(i) || w.through(run, try, i) <= got.own+1e-9)
				}
				if fits {
					best = try
				}
			}
			want = best
		}
		var lowered [][2]int
		for _, i := range w.order {
			if ends := w.ends(i); w.simple[i] && !run.begun[i] && !slices.Contains(lowered, ends) {
				lowered = append(lowered, ends)
				lower(i, func(j int) bool { return w.simple[j] && w.ends(j) == ends })
			}
		}
		for _, simple := range []bool{true, false} {
			for _, i := range w.order {
				if w.simple[i] == simple && !run.begun[i] {
					lower(i, func(j int) bool { return j == i })
				}
			}
		}
		if got.adjust(run); !slices.Equal(got.kind, want) {
			t.Fatalf("types %v, by brute force %v", got.kind, want)
		}
		for i, until := range got.until {
			if latest := max(run.now, got.own-w.tail[i]); !run.begun[i] && until > latest+1e-9 {
				t.Fatalf("task %d ends by %v, and the rest takes until %v on the most powerful type", i, until, got.own)
			}
		}
	})
}

// Prices are 1 or 3, and 4 on demand. With one hour to spare, the bid must be the on-demand price (equation 1), also
// for less than an hour of work.
func TestPartOfHourBidsLikeHour(t *testing.T) {
	prices := slices.Repeat([]float64{1, 1, 3, 3}, 100)
	w, err := New(t.Context(), jobOf(nil, 60), []Type{{OnDemandUSD: 4, USD: prices}}, 1, 0, 399)
	if err != nil {
		t.Fatal(err)
	}
	for _, work := range []float64{0.1, 0.5, 1} {
		got, err := w.newBFRC(8).order(t.Context(), moment{run: w.progress(), work: work, hour: 399, finish: 8, spare: 1})
		if err != nil || got.maxUSD != 4 {
			t.Errorf("%v hours: bid %v, %v", work, got.maxUSD, err)
		}
	}
}

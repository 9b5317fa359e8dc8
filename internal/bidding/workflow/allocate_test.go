package workflow

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// With whole hours everywhere some cheapest durations are whole hours, too, so trying all of these finds the lowest
// cost. Some tasks have begun, at different times.
func TestAllocationMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "tasks")
		job := &dag.Job{Name: "drawn"}
		for i := range n {
			job.Tasks = append(job.Tasks, dag.Task{Name: string(rune('a' + i)), Nodes: 1, Resources: []dag.Resources{{}}})
			for p := range i {
				if rapid.Bool().Draw(t, "edge") {
					job.Edges = append(job.Edges, dag.Edge{From: p, To: i})
				}
			}
		}
		w := &Workflow{graph: job.Graph(), order: job.Order(), restart: float64(rapid.IntRange(0, 1).Draw(t, "restart"))}
		w.speed = []float64{1, 1. / 2, 1. / 4}
		slow := rapid.IntRange(1, 9).Draw(t, "slow")
		usd := []float64{0, float64(1 + 2*slow), 1} // an hour less costs slow, and then more or less
		usd[0] = usd[1] + float64(rapid.IntRange(0, 20).Draw(t, "fast"))
		for range n {
			w.work = append(w.work, float64(rapid.IntRange(0, 2).Draw(t, "work")))
		}
		run := w.progress()
		run.now = float64(rapid.IntRange(0, 2).Draw(t, "now"))
		for _, i := range w.order[:rapid.IntRange(0, n).Draw(t, "begun")] {
			run.begun[i], run.at[i] = true, run.now-float64(rapid.IntRange(0, int(run.now)).Draw(t, "ago"))
			for _, p := range w.graph.Parents(i) {
				run.left[p], run.at[p] = 0, min(run.at[p], run.at[i])
			}
		}
		deadline := run.now + float64(rapid.IntRange(0, 16).Draw(t, "deadline"))
		least, best := cheapestSpans(w, run, usd, deadline)
		got := w.allocate(run, w.corners(usd), deadline)
		if math.IsInf(least, 1) {
			deadline, least = best, math.Inf(1)
		}
		if end := w.endOf(run, got); end > deadline+1e-6 {
			t.Fatalf("durations %v end after %v hours, not %v", got, end, deadline)
		}
		if cost := w.costOf(run, usd, got); cost > least+1e-6 {
			t.Fatalf("durations %v cost %v, least %v", got, cost, least)
		}
	})
}

// endOf returns when a run with the given durations ends.
func (w *Workflow) endOf(run *progress, spans []float64) (end float64) {
	at := make([]float64, len(spans))
	for _, i := range w.order {
		from := run.now
		for _, p := range w.graph.Parents(i) {
			from = max(from, at[p])
		}
		if run.begun[i] {
			from = run.at[i]
		}
		at[i] = from + spans[i]
		end = max(end, at[i])
	}
	return end
}

// costOf returns the lowest cost of tasks with the given durations, each on one or two types.
func (w *Workflow) costOf(run *progress, usd, spans []float64) (sum float64) {
	for i, span := range spans {
		if !run.begun[i] {
			span -= w.restart
		}
		if run.left[i] == 0 {
			continue
		}
		least := math.Inf(1)
		for a := range usd {
			for b := range usd {
				slow, fast := run.left[i]/w.speed[a], run.left[i]/w.speed[b]
				switch {
				case slow <= span+1e-9:
					least = min(least, usd[a]*run.left[i])
				case fast <= span+1e-9:
					share := max(0, span-fast) / (slow - fast)
					least = min(least, (share*usd[a]+(1-share)*usd[b])*run.left[i])
				}
			}
		}
		sum += least
	}
	return sum
}

// cheapestSpans tries all durations of whole hours. It returns the lowest cost of those that end by the deadline, and the
// earliest end of all.
func cheapestSpans(w *Workflow, run *progress, usd []float64, deadline float64) (least, first float64) {
	least, first = math.Inf(1), math.Inf(1)
	spans := make([]float64, len(w.work))
	var try func(i int)
	try = func(i int) {
		if i == len(spans) {
			end := w.endOf(run, spans)
			if first = min(first, end); end <= deadline {
				least = min(least, w.costOf(run, usd, spans))
			}
			return
		}
		start := w.startOf(run, i)
		for spans[i] = start + run.left[i]; spans[i] <= start+4*run.left[i]; spans[i]++ {
			try(i + 1)
		}
	}
	try(0)
	return least, first
}

// At steady prices a task costs what the paper's bound says (equations 9 and 10): it divides its work between two
// types, at a time that need not be a full hour.
func TestTaskUsesTwoTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var types []Type
		for _, usd := range []float64{1, 2, 4} {
			m := Type{OnDemandUSD: usd}
			price := usd * rapid.Float64Range(0.1, 0.9).Draw(t, "price")
			for range 300 {
				m.USD = append(m.USD, price)
			}
			types = append(types, m)
		}
		job := &dag.Job{Tasks: []dag.Task{{Name: "a", Nodes: 1, Recorded: time.Hour, Resources: []dag.Resources{{}}}}}
		w, err := New(t.Context(), job, types, 5, 0, 200)
		if err != nil {
			t.Fatal(err)
		}
		own := rapid.Float64Range(5, 25).Draw(t, "time")
		got, err := w.Run(t.Context(), markov, 200, own+w.reserve())
		want, err2 := w.Run(t.Context(), PathBound, 200, own)
		if err != nil || err2 != nil || got.USD < want.USD*(1-1e-6) || got.USD > want.USD*1.01 {
			t.Fatalf("%v USD, the bound is %v (%v, %v)", got.USD, want.USD, err, err2)
		}
	})
}

// An hour less costs 2 USD from four hours to two, and 3 USD below. So a task before two parallel ones is shortened to
// one hour before both of them are, which costs 4 USD.
func TestAllocationShortensWhereItCostsLeast(t *testing.T) {
	job := &dag.Job{
		Tasks: []dag.Task{{Name: "a", Nodes: 1}, {Name: "b", Nodes: 1}, {Name: "c", Nodes: 1}},
		Edges: []dag.Edge{{From: 0, To: 1}, {From: 0, To: 2}},
	}
	w := &Workflow{graph: job.Graph(), order: job.Order(), speed: []float64{1, 0.5, 0.25}, work: []float64{1, 1, 1}}
	for deadline, want := range map[float64][]float64{
		9: {4, 4, 4}, 7: {3, 4, 4}, 5: {1, 4, 4}, 4: {1, 3, 3}, 2: {1, 1, 1}, 1: {1, 1, 1},
	} {
		if got := w.allocate(w.progress(), w.corners([]float64{8, 5, 1}), deadline); !slices.Equal(got, want) {
			t.Errorf("by %v hours: %v, want %v", deadline, got, want)
		}
	}
}

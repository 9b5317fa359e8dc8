package workflow_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/bidding/workflow"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// types returns three sizes of a machine. The small one is the cheapest for the same work, as on the paper's markets.
func types(hours int, seed uint64) []workflow.Type {
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	var out []workflow.Type
	for i, share := range []float64{0.15, 0.2, 0.3} {
		size := math.Exp2(float64(i))
		t := workflow.Type{Name: []string{"large", "xlarge", "2xlarge"}[i], OnDemandUSD: size}
		usd := share
		for range hours {
			if rng.Float64() < 0.2 {
				usd = share * (0.5 + 2*rng.Float64())
				if rng.Float64() < 0.1 {
					usd = 1.5
				}
			}
			t.USD = append(t.USD, usd*size)
		}
		out = append(out, t)
	}
	return out
}

// diamond returns a job of one task, two parallel tasks after it, and one task after both.
func diamond() *dag.Job {
	task := func(name string, minutes int) dag.Task {
		return dag.Task{Name: name, Recorded: time.Duration(minutes) * time.Minute, Nodes: 1, Resources: []dag.Resources{{}}}
	}
	return &dag.Job{
		Name:  "diamond",
		Tasks: []dag.Task{task("a", 10), task("b", 30), task("c", 20), task("d", 5)},
		Edges: []dag.Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 1, To: 3}, {From: 2, To: 3}},
	}
}

func TestPoliciesMeetDeadlineAboveLowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const first = 200
		markets := types(600, rapid.Uint64().Draw(t, "seed"))
		hours := rapid.Float64Range(0.5, 40).Draw(t, "hours")
		restart := rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "restart")
		w, err := workflow.New(context.Background(), diamond(), markets, hours, restart, first)
		if err != nil {
			t.Fatal(err)
		}
		start := first + rapid.IntRange(0, 100).Draw(t, "start")
		deadline := w.Hours() * rapid.Float64Range(1, 4).Draw(t, "stretch")
		least, err := w.Run(context.Background(), "clairvoyant", start, deadline)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"on-demand", "spot", "aib", "bfrc", "markov"} {
			got, err := w.Run(context.Background(), name, start, deadline)
			if err != nil {
				t.Fatal(err)
			}
			if got.Missed || got.USD < least.USD-1e-9 {
				t.Fatalf("%s: %+v; the minimum is %v", name, got, least.USD)
			}
		}
	})
}

// Spot always costs more than on demand. Every policy must pay exactly the on-demand price of the work.
func TestExpensiveSpotRunsOnDemand(t *testing.T) {
	markets := types(400, 1)
	for i := range markets {
		for h := range markets[i].USD {
			markets[i].USD[h] = 2 * markets[i].OnDemandUSD
		}
	}
	w, err := workflow.New(context.Background(), diamond(), markets, 12, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.Run(context.Background(), "on-demand", 150, 30)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spot", "aib", "bfrc", "markov", "clairvoyant"} {
		if got, err := w.Run(context.Background(), name, 150, 30); err != nil || math.Abs(got.USD-want.USD) > 1e-9 || got.Missed {
			t.Errorf("%s: %+v %v, on-demand %v", name, got, err, want.USD)
		}
	}
}

// Prices are constant, so waiting gains nothing and the cost depends only on the use of slack. This package's method
// must cost at most as much as the paper's.
func TestSteadyPricesCostNoMoreThanPaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		markets := types(600, 1)
		for i := range markets {
			for h := range markets[i].USD {
				markets[i].USD[h] = markets[i].USD[0]
			}
		}
		hours := rapid.Float64Range(2, 40).Draw(t, "hours")
		w, err := workflow.New(context.Background(), diamond(), markets, hours, 0, 200)
		if err != nil {
			t.Fatal(err)
		}
		deadline := hours*rapid.Float64Range(1.1, 4).Draw(t, "stretch") + 1
		ours, err := w.Run(context.Background(), "markov", 250, deadline)
		if err != nil {
			t.Fatal(err)
		}
		paper, err := w.Run(context.Background(), "bfrc", 250, deadline)
		if err != nil || ours.USD > paper.USD*(1+1e-9) {
			t.Fatalf("ours %v, the paper's %v (%v)", ours.USD, paper.USD, err)
		}
	})
}

// The paper's bound must equal the minimum cost of all divisions of one path's work between two types. The test tries
// many divisions.
func TestPathBoundIsTheBestPairOfTypes(t *testing.T) {
	const first, hours = 200, 10.0
	markets := types(400, 7)
	for i := range markets {
		for h := range first {
			markets[i].USD[h] = markets[i].OnDemandUSD * []float64{0.1, 0.2, 0.35}[i]
		}
	}
	path := diamond()
	path.Tasks, path.Edges = path.Tasks[:1], nil
	w, err := workflow.New(t.Context(), path, markets, hours, 0, first)
	if err != nil {
		t.Fatal(err)
	}
	speed, mean := []float64{0.25, 0.5, 1}, []float64{0.4, 0.8, 1.4} // per unit of work, in on-demand dollars / 4 h
	for _, stretch := range []float64{1, 1.2, 1.7, 2, 3, 3.9, 4, 6} {
		least := math.Inf(1)
		for a := range speed {
			for b := range speed {
				for share := 0.0; share <= 1; share += 1e-4 {
					if share/speed[a]+(1-share)/speed[b] <= stretch+1e-9 {
						least = min(least, hours*(share*mean[a]+(1-share)*mean[b]))
					}
				}
			}
		}
		got, err := w.Run(t.Context(), workflow.PathBound, first, hours*stretch)
		if err != nil || math.Abs(got.USD-least) > 1e-2 {
			t.Errorf("%v times the time: %v, %v, want %v", stretch, got.USD, err, least)
		}
	}
}

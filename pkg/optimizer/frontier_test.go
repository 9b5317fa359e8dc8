package optimizer_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// bruteFront returns the cost and makespan of each plan on the Pareto front, fastest first. It enumerates all plans.
// Plans that differ only by rounding count as one.
func bruteFront(m *optimizer.Model) [][2]float64 {
	var all [][2]float64
	everyPlan(m, func(picks []int, usd, hours float64) {
		if keepsBounds(m, usd, hours) && keepsCap(m, emitted(m, picks)) {
			all = append(all, [2]float64{usd, hours})
		}
	})
	slices.SortFunc(all, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	var front [][2]float64
	for _, p := range all {
		n := len(front)
		switch {
		case n > 0 && p[0] >= front[n-1][0]-1e-9*max(1, front[n-1][0]):
		case n > 0 && p[1] <= front[n-1][1]+1e-9*max(1, front[n-1][1]):
			front[n-1] = p // as fast, but cheaper
		default:
			front = append(front, p)
		}
	}
	return front
}

func TestFrontierMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallModel(t)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0, 1:
			m = boundedModel(t)
		case 2:
			m = carbonModel(t)
		}
		want := bruteFront(m)
		got, err := optimizer.Frontier(t.Context(), m, optimizer.FrontierOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !got.Complete || len(got.Unexplored) > 0 {
			t.Fatalf("not complete: %+v", got.Unexplored)
		}
		if len(got.Points) != len(want) {
			t.Fatalf("%d points, want %d: %v", len(got.Points), len(want), want)
		}
		for i, p := range got.Points {
			if !same(p.USD, want[i][0]) || !same(p.Hours, want[i][1]) {
				t.Fatalf("point %d: %v USD %v h, want %v", i, p.USD, p.Hours, want[i])
			}
			if usd, hours := evaluate(m, p.Picks); !same(usd, p.USD) || !same(hours, p.Hours) {
				t.Fatalf("point %d has %v USD %v h, its plan %v USD %v h", i, p.USD, p.Hours, usd, hours)
			}
		}
	})
}

// The search stops early. Every point of the whole front must be either found or within a reported gap.
func TestPartialFrontierListsGaps(t *testing.T) {
	m := generate(3, randomDAG, 8, 12, 4)
	whole, err := optimizer.Frontier(t.Context(), m, optimizer.FrontierOptions{})
	if err != nil || !whole.Complete {
		t.Fatalf("%+v, %v", whole, err)
	}
	for _, most := range []int{2, 5, 9} {
		part, err := optimizer.Frontier(t.Context(), m, optimizer.FrontierOptions{MaxPoints: most})
		if err != nil {
			t.Fatal(err)
		}
		if part.Complete || len(part.Points) > most+1 || len(part.Unexplored) == 0 {
			t.Fatalf("%d points of %d, complete %v", len(part.Points), len(whole.Points), part.Complete)
		}
		for _, p := range whole.Points {
			there := slices.ContainsFunc(part.Points, func(q optimizer.Solution) bool { return same(p.USD, q.USD) && same(p.Hours, q.Hours) })
			open := slices.ContainsFunc(part.Unexplored, func(g optimizer.Gap) bool {
				return p.Hours > g.FromHours*(1-1e-7) && p.Hours < g.ToHours && p.USD > g.FromUSD && p.USD < g.ToUSD
			})
			if !there && !open {
				t.Errorf("at most %d points: %v USD %v h is neither found nor in a gap", most, p.USD, p.Hours)
			}
		}
	}
}

func TestFrontierOfInfeasibleModelIsEmpty(t *testing.T) {
	m := generate(1, chain, 3, 4, 2)
	none := 0.0
	m.DeadlineHours = &none
	f, err := optimizer.Frontier(t.Context(), m, optimizer.FrontierOptions{})
	if err != nil || len(f.Points) != 0 || !f.Complete {
		t.Errorf("%+v, %v", f, err)
	}
	if math.IsNaN(f.Millis) {
		t.Error("the time is zero")
	}
}

func BenchmarkFrontier(b *testing.B) {
	for _, g := range grid[:7] {
		b.Run(g.name, func(b *testing.B) {
			m := generate(1, g.shape, g.tasks, g.offers, 30)
			points := 0
			for b.Loop() {
				f, err := optimizer.Frontier(b.Context(), m, optimizer.FrontierOptions{MaxPoints: 64})
				if err != nil {
					b.Fatal(err)
				}
				points = len(f.Points)
			}
			b.ReportMetric(float64(points), "points")
		})
	}
}

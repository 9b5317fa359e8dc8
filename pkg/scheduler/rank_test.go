package scheduler

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHeapOrder: after any pushes and pops, no item may come before the heap's first one. This also holds if the
// first item gets a larger value and Sink moves it down.
func TestHeapOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := heap[*int]{Compare: func(a, b *int) int { return cmp.Compare(*a, *b) }}
		var all []*int
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what < 2 || len(all) == 0:
				x := rapid.IntRange(0, 9).Draw(t, "item")
				all = append(all, &x)
				h.Push(&x)
			case what == 2:
				*h.Items[0] += rapid.IntRange(0, 9).Draw(t, "worse by")
				h.Sink()
			default:
				x := h.Pop()
				i := slices.Index(all, x)
				if i < 0 {
					t.Fatal("it returns an item that was not added")
				}
				all = slices.Delete(all, i, i+1)
			}
			if len(h.Items) != len(all) {
				t.Fatalf("%d items of %d", len(h.Items), len(all))
			}
			for _, x := range all {
				if *x < *h.Items[0] {
					t.Fatalf("%d comes before %d", *h.Items[0], *x)
				}
			}
		}
	})
}

// TestHeapSink: of equal items, the first one must stay first, so that the order of turns does not change without
// need.
func TestHeapSink(t *testing.T) {
	compared := func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) }
	h := heap[[2]int]{Compare: compared}
	for i := range 3 {
		h.Push([2]int{1, i})
	}
	if h.Sink(); h.Items[0] != [2]int{1, 0} {
		t.Errorf("%v is first of equals", h.Items[0])
	}
	h.Items[0][0] = 2
	if h.Sink(); h.Items[0] != [2]int{1, 1} {
		t.Errorf("%v is first of the remaining two", h.Items[0])
	}
}

// TestTournamentBest compares a tournament with a scan of all scores, in all ranges.
func TestTournamentBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 17).Draw(t, "n")
		score := rapid.SampledFrom([]float64{Never, 1, 2, 3})
		scores := make([]float64, n)
		var played tournament
		for round := range 3 {
			if round != 1 { // new scores, twice
				for i := range scores {
					scores[i] = score.Draw(t, "score")
				}
				played.Reset(n, func(i int) float64 { return scores[i] })
			}
			for range 8 {
				i := rapid.IntRange(0, n-1).Draw(t, "i")
				scores[i] = score.Draw(t, "another")
				played.Set(i, scores[i])
				for from := range n {
					for to := from + 1; to <= n; to++ {
						want := -1
						for k := from; k < to; k++ {
							if scores[k] != Never && (want < 0 || scores[k] > scores[want]) {
								want = k
							}
						}
						if got := played.Best(from, to); got != want {
							t.Fatalf("of %v from %d to %d it returns %d, want %d", scores, from, to, got, want)
						}
					}
				}
			}
		}
	})
}

package topk_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/base/topk"
)

type value struct{ weight, serial int }

func byWeight(a, b value) int { return cmp.Compare(a.weight, b.weight) }

func TestInsertKeepsWhatAStableSortPutsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOf(rapid.IntRange(0, 6)).Draw(t, "weights")
		k := rapid.IntRange(0, 8).Draw(t, "k")
		var all, top []value
		for i, w := range weights {
			v := value{weight: w, serial: i}
			all, top = append(all, v), topk.Insert(top, v, k, byWeight)
		}
		slices.SortStableFunc(all, byWeight)
		if want := all[:min(k, len(all))]; !slices.Equal(top, want) {
			t.Fatalf("the first %d of %v are %v, want %v", k, weights, top, want)
		}
	})
}

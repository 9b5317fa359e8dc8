package timeline

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimerOrder: timers fire in the order of their times. Timers with equal times fire in the order in which they
// were added.
func TestTimerOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heap timers
		var left []timer
		take := func() {
			first := slices.MinFunc(left, func(a, b timer) int {
				if a.before(&b) {
					return -1
				}
				return 1
			})
			if got := heap.next(); got.at != first.at || got.serial != first.serial {
				t.Fatalf("%v comes next, want %v", got, first)
			}
			left = slices.DeleteFunc(left, func(x timer) bool { return x.serial == first.serial })
		}
		for i, at := range rapid.SliceOf(rapid.IntRange(-1, 9)).Draw(t, "moments") {
			if at < 0 {
				if len(left) > 0 {
					take()
				}
				continue
			}
			one := timer{at: time.Duration(at), serial: uint64(i)} //nolint:gosec // not negative
			heap.add(one)
			left = append(left, one)
		}
		for len(left) > 0 {
			take()
		}
		if len(heap) > 0 {
			t.Fatalf("%d too many", len(heap))
		}
	})
}

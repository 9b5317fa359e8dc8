package record

import (
	"fmt"
	"testing"
)

// TestPaddedKeysSortNumerically: tasks are listed by key, so their numbers have as many digits, up to a million.
func TestPaddedKeysSortNumerically(t *testing.T) {
	for _, n := range []int{0, 7, 42, 999, 1000, 99_999, 999_999, 1_000_000, 12_345_678} {
		for _, width := range []int{3, 4, 6} {
			if got, want := padded(n, width), fmt.Sprintf("%0*d", width, n); got != want {
				t.Errorf("%d with %d digits: %s, want %s", n, width, got, want)
			}
		}
	}
	if got := AttemptKey("j", 12, 3).Sort; got != "attempt#000012#0003" {
		t.Errorf("the key of an attempt is %s", got)
	}
}

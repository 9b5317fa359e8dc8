package stage

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

func TestWindowGrowsWithThroughput(t *testing.T) {
	for name, c := range map[string]struct {
		pace func(limit int) float64
		want int
	}{
		"a store far away":  {func(limit int) float64 { return float64(min(limit, 40)) }, 41},
		"a busy machine":    {func(int) float64 { return 1 }, 8},
		"as many as it may": {func(limit int) float64 { return float64(limit) }, 62},
	} {
		w := limitControl{limit: 8, least: 8, most: 64}
		for range 20 {
			w.next(c.pace(w.limit), true)
		}
		if w.limit != c.want {
			t.Errorf("%s: %d requests, want %d", name, w.limit, c.want)
		}
	}
	w := limitControl{limit: 8, least: 8, most: 64}
	w.next(1, false)
	if w.limit != 8 {
		t.Errorf("%d requests, although they did not limit the throughput", w.limit)
	}
}

func TestJoinCRCEqualsWholeCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		got := joinCRC(crc32.Checksum(a, castagnoli), crc32.Checksum(b, castagnoli), int64(len(b)))
		if want := crc32.Checksum(append(a, b...), castagnoli); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
}

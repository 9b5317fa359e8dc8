package deflate_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/base/deflate"
)

func TestSavesUnitsOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "piece"), rapid.IntRange(0, 40).Draw(t, "times"))
		unit := rapid.IntRange(1, 2000).Draw(t, "unit")
		small, ok := deflate.Saves(raw, unit)
		if !ok {
			return
		}
		if len(small)/unit >= len(raw)/unit {
			t.Fatalf("%d bytes instead of %d save no unit of %d", len(small), len(raw), unit)
		}
		if got, err := deflate.Inflate(small, len(raw)); err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%d bytes became %d: %v", len(raw), len(got), err)
		}
		if _, err := deflate.Inflate(small, len(raw)-1); !errors.Is(err, deflate.ErrTooLarge) {
			t.Fatalf("more than allowed: %v", err)
		}
	})
	if _, ok := deflate.Saves(bytes.Repeat([]byte("x"), 5000), 1024); !ok {
		t.Error("5,000 equal bytes are not compressed")
	}
}

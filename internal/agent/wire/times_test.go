package wire_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

func mark(offset int64, ms int64) wire.LogMark {
	return wire.LogMark{Offset: offset, At: time.UnixMilli(ms).UTC()}
}

func TestMarksSurviveTheWire(t *testing.T) {
	want := []wire.LogMark{mark(1000, 1_700_000_000_000), mark(1001, 1_700_000_000_100), mark(1500, 1_699_999_999_000)}
	text := wire.FormatMarks(1000, want)
	if got, err := wire.ParseMarks(1000, 501, text); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q is read as %v, %v", text, got, err)
	}
	for _, bad := range []string{text[1:], "0", "0:", "-1:5", "501:5", "0:1,501:1", "0:1,,0:1", strings.Repeat("0:1,", wire.MaxLogMarks) + "0:1"} {
		if got, err := wire.ParseMarks(1000, 501, bad); !errors.Is(err, wire.ErrTimes) {
			t.Errorf("%q is read as %v, %v", bad, got, err)
		}
	}
}

func TestMarksFrom(t *testing.T) {
	marks := []wire.LogMark{mark(10, 1), mark(20, 2), mark(30, 3)}
	for offset, want := range map[int64][]wire.LogMark{
		5: marks, 10: marks, 15: {mark(15, 1), marks[1], marks[2]}, 20: marks[1:], 99: {mark(99, 3)},
	} {
		if got := wire.MarksFrom(marks, offset); !slices.Equal(got, want) {
			t.Errorf("from %d: %v", offset, got)
		}
	}
	if marks[0] != mark(10, 1) {
		t.Error("the marks were changed")
	}
}

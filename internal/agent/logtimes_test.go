package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// Each piece of a log has the time of its first byte. A part that was written at least a tenth of a second later has
// a time of its own.
func TestTimesOfLogPieces(t *testing.T) {
	l, err := newTaskLog(filepath.Join(t.TempDir(), "log"), nil, "j.0.1", 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	nine := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	write := func(text string, after time.Duration) {
		l.mark(nine.Add(after))
		l.size += int64(len(text))
	}
	write("one\n", 0)
	write("two\n", 50*time.Millisecond)
	write("three\n", time.Second)
	for _, c := range []struct {
		from int64
		n    int
		want string
	}{
		{0, 14, "[{0 09:00:00} {8 09:00:01}]"}, {0, 8, "[{0 09:00:00}]"}, {4, 10, "[{4 09:00:00} {8 09:00:01}]"},
		{9, 5, "[{9 09:00:01}]"}, {0, 0, "[]"},
	} {
		marks, err := wire.ParseMarks(c.from, int64(c.n), l.times(c.from, c.n))
		var got []string
		for _, m := range marks {
			got = append(got, fmt.Sprintf("{%d %s}", m.Offset, m.At.Format(time.TimeOnly)))
		}
		if text := fmt.Sprint(got); err != nil || text != c.want {
			t.Errorf("%d bytes from %d: %s, %v, want %s", c.n, c.from, text, err, c.want)
		}
	}
}

// A task that prints all the time must take only limited memory, and its log must have a limited number of times.
func TestTimesOfLongLogAreLimited(t *testing.T) {
	l, err := newTaskLog(filepath.Join(t.TempDir(), "log"), nil, "j.0.1", 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for range 3 * maxMarks {
		l.mark(now)
		l.size++
		now = now.Add(time.Second)
	}
	if len(l.marks) > maxMarks || l.marks[0].Offset != 0 {
		t.Errorf("%d marks, the first at %d", len(l.marks), l.marks[0].Offset)
	}
	times := l.times(0, int(l.size))
	marks, err := wire.ParseMarks(0, l.size, times)
	if n := 1 + strings.Count(times, ","); err != nil || n > wire.MaxLogMarks || n < wire.MaxLogMarks/3 || marks[0].Offset != 0 {
		t.Errorf("%d marks are sent, %v", n, err)
	}
}

package text

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUSD(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 12.345: "12.35", 1: "1.00", 0.9999: "1.00", 0.5: "0.5000", 0.00012: "0.0001", 0.00001: "<0.0001", -3: "-3.00", -0.25: "-0.2500",
	} {
		if got := USD(v); got != want {
			t.Errorf("USD(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSaved(t *testing.T) {
	for _, c := range []struct {
		v, than float64
		want    string
	}{{4, 10, "60% less"}, {15, 10, "50% more"}, {10, 10, "the same"}, {10.01, 10, "the same"}, {1, 0, ""}} {
		if got := Saved(c.v, c.than); got != c.want {
			t.Errorf("Saved(%v, %v) = %q, want %q", c.v, c.than, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Microsecond: "1ms", 40 * time.Millisecond: "40ms", 1234 * time.Millisecond: "1.2s", 12300 * time.Millisecond: "12s",
		time.Minute: "1m", 59*time.Minute + 59500*time.Millisecond: "1h", 34*time.Minute + 10*time.Second: "34m 10s",
		2*time.Hour + 7*time.Minute: "2h 7m", 47 * time.Hour: "47h", 76 * time.Hour: "3d 4h", -90 * time.Second: "-1m 30s",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestHoursSaturates(t *testing.T) {
	if got := Hours(math.Inf(1)); got <= 0 {
		t.Errorf("infinity is %v", got)
	}
	if got := Hours(1.5); got != 90*time.Minute {
		t.Errorf("1.5 hours are %v", got)
	}
}

func TestCountAndList(t *testing.T) {
	for want, got := range map[string]string{
		"1 task": Count(1, "task"), "1,234 tasks": Count(1234, "task"), "0 tasks": Count(0, "task"), "-1,000": Thousands(-1000), "999": Thousands(999),
		"1,000,000": Thousands(1e6), "+26:00:05": Clock(26*time.Hour + 5*time.Second), "+0:00:00": Clock(-time.Hour),
		"": List(nil, "or"), "a": List([]string{"a"}, "or"), "a, b or c": List([]string{"a", "b", "c"}, "or"), "0.001": Number(0.001), "8": Number(8),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCleanRemovesControlSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Clean(rapid.String().Draw(t, "s"))
		for _, r := range s {
			if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
				t.Fatalf("%q has a control character", s)
			}
		}
	})
	if got := Clean("a\x1b[31mred\x1b]0;title\x07\nb\tc\r"); got != "ared b c" {
		t.Errorf("got %q", got)
	}
}

func TestPlaceFitsWidth(t *testing.T) {
	const id = "aws/us-east-1/use1-az1/p3.2xlarge/spot"
	for width, want := range map[int]string{
		80: id, 38: id, 37: "aws/use1-az1/p3.2xlarge/spot", 28: "aws/use1-az1/p3.2xlarge/spot", 27: "aws/p3.2xlarge/spot", 10: "aws/p3.2x…",
	} {
		if got := Place(id, width); got != want {
			t.Errorf("in %d cells: %q, want %q", width, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 60).Draw(t, "width")
		if got := Place(rapid.String().Draw(t, "id"), width); Width(got) > width {
			t.Fatalf("%q is wider than %d", got, width)
		}
	})
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 40)
	for _, line := range Wrap(long, 30) {
		if Width(line) > 30 {
			t.Errorf("%q is too long", line)
		}
	}
	if got := Wrap(long, 5); len(got) != 1 {
		t.Errorf("a terminal too narrow for words got %d lines", len(got))
	}
}

func TestPaint(t *testing.T) {
	if got := (Style{}).Paint(Good, "x"); got != "x" {
		t.Errorf("painted without a terminal: %q", got)
	}
	for tone := Strong; tone <= Active; tone++ {
		if got := NewStyle(true).Paint(tone, "x"); !strings.HasPrefix(got, "\x1b[") || Width(got) != 1 {
			t.Errorf("tone %d: %q", tone, got)
		}
	}
	if got := NewStyle(true).Paint(Plain, "x"); got != "x" {
		t.Errorf("plain text is painted: %q", got)
	}
}

func TestGistKeepsFirstAndLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"no such file":          "no such file",
		"one\ntwo\n":            "one two",
		"one\r\n\n two\nthree ": "one … three",
		"exit code 1: Trace:\n  line 1\n\x1b[31mError\x1b[0m: by zero\n": "exit code 1: Trace: … Error: by zero",
	} {
		if got := Gist(in); got != want {
			t.Errorf("Gist(%q) = %q, want %q", in, got, want)
		}
	}
}

package dag

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantitiesReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDuration().Draw(t, "time")
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %s and read %v, %v", d, formatDuration(d), got, err)
		}
		g := genSize().Draw(t, "size")
		if got, err := parseSize(formatSize(g)); err != nil || got != g {
			t.Fatalf("%v is written %s and read %v, %v", g, formatSize(g), got, err)
		}
		if r := genRange(MaxCPUs).Draw(t, "cpus"); !r.IsZero() {
			if got, err := parseCPUs(formatRange(r, formatNumber)); err != nil || got != r {
				t.Fatalf("%v is written %s and read %v, %v", r, formatRange(r, formatNumber), got, err)
			}
		}
		if r := genRange(MaxMemoryGiB).Draw(t, "memory"); !r.IsZero() {
			if got, err := parseMemory(formatRange(r, formatMemory)); err != nil || got != r {
				t.Fatalf("%v is written %s and read %v, %v", r, formatRange(r, formatMemory), got, err)
			}
		}
	})
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2.1h": 2*time.Hour + 6*time.Minute, "40m": 40 * time.Minute, "1h30m": 90 * time.Minute, " 1d 12h ": 36 * time.Hour, "1.5d": 36 * time.Hour,
		"90s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1ns": 1, "1µs": time.Microsecond, "1us": time.Microsecond, ".5h": 30 * time.Minute,
		"3650d": MaxDuration, "87600h": MaxDuration,
		"": 0, "h": 0, "1": 0, "1.5": 0, "1e3s": 0, "1x": 0, "-1h": 0, "+1h": 0, "1h-30m": 0, "0s": 0, "0": 0, "0.1ns": 0, "1..5h": 0, "NaNh": 0, "infs": 0,
		"3651d": 0, "1000000h": 0, "87600h1ns": 0, "99999999999999999999999999999999999h": 0, "1h 30": 0, "0x1h": 0, "1_0h": 0, "1 h": 0,
	} {
		got, err := parseDuration(text)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]GiB{
		"2GiB": 2, "2": 2, "0.5": 0.5, "512MiB": 0.5, " 1 TiB ": 1024, "1073741824B": 1, "2Gi": 2, "150GB": 150e9 / (1 << 30), "1e3": 1000, "1EiB": MaxSize,
		"1kB": 1000. / (1 << 30), "0": 0, "0B": 0, "1e-3GiB": 0.001,
		"": -1, "GiB": -1, "-1": -1, "1G": -1, "1gib": -1, "1 2": -1, "NaN": -1, "inf": -1, "1e400": -1, "2EiB": -1, "0x10": -1, "1_000": -1, "1GiBB": -1,
	} {
		got, err := parseSize(text)
		if (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]Range{
		"8": {8, 8}, "8+": {8, 0}, "8-16": {8, 16}, "0-16": {0, 16}, "0.5+": {0.5, 0}, "1e-1-2e0": {0.1, 2}, " 4+ ": {4, 0}, "1e5": {1e5, 1e5},
		"": {}, "+": {}, "0": {}, "0+": {}, "0-0": {}, "-8": {}, "8-": {}, "-": {}, "8--9": {}, "16-8": {}, "8+16": {}, "8-16+": {}, "8++": {}, "x": {}, "1e6": {}, "NaN+": {},
	} {
		got, err := parseCPUs(text)
		if (err == nil) != !want.IsZero() || err == nil && got != want {
			t.Errorf("cpus %q are %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]Range{
		"32+": {32, 0}, "512MiB-1GiB": {0.5, 1}, "64 GiB +": {}, "16GiB+": {16, 0}, "0GiB+": {}, "1PiB+": {},
	} {
		got, err := parseMemory(text)
		if text == "64 GiB +" {
			want = Range{64, 0}
		}
		if text == "1PiB+" { // a whole pebibyte is more than any machine has
			want = Range{}
		}
		if (err == nil) != !want.IsZero() || err == nil && got != want {
			t.Errorf("memory %q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestBudgets(t *testing.T) {
	for text, want := range map[string]USD{
		"40": 40, "40 USD": 40, "40USD": 40, "$40": 40, "0.5": 0.5, "1e3": 1000,
		"": 0, "USD": 0, "$": 0, "-1": 0, "0": 0, "NaN": 0, "1e10": 0, "40 €": 0,
	} {
		got, err := parseBudget(text)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestAcceleratorsAreNormalised(t *testing.T) {
	for text, want := range map[string]string{
		"V100": "V100:1", "v100:4": "V100:4", "nvidia-tesla-v100:0.5": "V100:0.5", "A100-40GB:1": "A100:1", "tpu-v3-8": "tpu-v3-8:1", " T4 : 2 ": "T4:2",
		"Own-Chip-9000:3": "Own-Chip-9000:3",
	} {
		name, count, err := parseAccelerator(text)
		if err != nil || AcceleratorKey(name, count) != want {
			t.Errorf("%q is %s, %v; want %s", text, AcceleratorKey(name, count), err, want)
		}
	}
	for _, text := range []string{"", ":4", "V100:", "V100:-1", "V100:1e9", "V100:1:2", "V10O", "p3", "a b\n"} {
		if name, count, err := parseAccelerator(text); err == nil {
			t.Errorf("%q is %s", text, AcceleratorKey(name, count))
		}
	}
}

func TestEstimateIsTheMostSpecific(t *testing.T) {
	e := TimeEstimate{Default: 5, On: map[string]time.Duration{"V100": 4, "V100:8": 3, "p3.16xlarge": 2}}
	for _, c := range []struct {
		instance, accelerator string
		count                 float64
		want                  time.Duration
	}{
		{"p3.16xlarge", "V100", 8, 2}, {"x", "V100", 8, 3}, {"x", "V100", 4, 4}, {"x", "T4", 1, 5}, {"", "", 0, 5},
	} {
		if got := e.For(c.instance, c.accelerator, c.count); got != c.want {
			t.Errorf("on %s with %v %s: %v, want %v", c.instance, c.count, c.accelerator, got, c.want)
		}
	}
	if got := (TimeEstimate{}).For("x", "", 0); got != DefaultTime {
		t.Errorf("unknown is %v", got)
	}
}

func TestRangeHolds(t *testing.T) {
	for _, c := range []struct {
		r    Range
		v    float64
		want bool
	}{
		{Range{}, 0, true}, {Range{4, 4}, 4, true}, {Range{4, 4}, 8, false}, {Range{4, 0}, math.MaxFloat64, true}, {Range{4, 0}, 3, false}, {Range{0, 8}, 9, false},
	} {
		if c.r.Holds(c.v) != c.want {
			t.Errorf("%v of %v: %v", c.v, c.r, !c.want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	known := []string{"deadline", "budget", "resources", "run", "env", "apiVersion"}
	for word, want := range map[string]string{
		"dedline": "deadline", "DEADLINE": "deadline", "dead_line": "deadline", "budegt": "budget", "rn": "run", "resource": "resources", "apiversion": "apiVersion",
		"colour": "", "x": "", "": "", "environment": "", "nur": "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("%q suggests %q, want %q", word, got, want)
		}
	}
}

func TestEditDistanceAgainstItsDefinition(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		var d func(i, j int) int // of the first i of a and j of b
		d = func(i, j int) int {
			if i == 0 || j == 0 {
				return i + j
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			best := min(d(i-1, j)+1, d(i, j-1)+1, d(i-1, j-1)+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, d(i-2, j-2)+1)
			}
			return best
		}
		for limit := range 4 {
			if got, want := editDistance(a, b, limit), min(d(len(a), len(b)), limit+1); got != want {
				t.Fatalf("%q to %q within %d: %d, want %d", a, b, limit, got, want)
			}
		}
	})
}

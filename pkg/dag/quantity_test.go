package dag_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

func TestQuantitiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := dagtest.Duration().Draw(t, "time")
		if got, err := dag.ParseDuration(dag.FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %s and read %v, %v", d, dag.FormatDuration(d), got, err)
		}
		g := dagtest.Size().Draw(t, "size")
		if got, err := dag.ParseSize(dag.FormatSize(g)); err != nil || got != g {
			t.Fatalf("%v is written %s and read %v, %v", g, dag.FormatSize(g), got, err)
		}
		if r := dagtest.Range(jobtext.MaxCPUs).Draw(t, "cpus"); !r.IsZero() {
			if got, err := dag.ParseCPUsAtLeast(dag.FormatRange(r, jobtext.FormatNumber)); err != nil || got != r {
				t.Fatalf("%v is written %s and read %v, %v", r, dag.FormatRange(r, jobtext.FormatNumber), got, err)
			}
		}
		if r := dagtest.Range(jobtext.MaxMemoryGiB).Draw(t, "memory"); !r.IsZero() {
			if got, err := dag.ParseMemoryAtLeast(dag.FormatRange(r, dag.FormatMemory)); err != nil || got != r {
				t.Fatalf("%v is written %s and read %v, %v", r, dag.FormatRange(r, dag.FormatMemory), got, err)
			}
		}
	})
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2.1h": 2*time.Hour + 6*time.Minute, "40m": 40 * time.Minute, "1h30m": 90 * time.Minute, " 1d 12h ": 36 * time.Hour, "1.5d": 36 * time.Hour,
		"90s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1ns": 1, "1µs": time.Microsecond, "1us": time.Microsecond, ".5h": 30 * time.Minute,
		"3650d": dag.MaxDuration, "87600h": dag.MaxDuration,
		"": 0, "h": 0, "1": 0, "1.5": 0, "1e3s": 0, "1x": 0, "-1h": 0, "+1h": 0, "1h-30m": 0, "0s": 0, "0": 0, "0.1ns": 0, "1..5h": 0, "NaNh": 0, "infs": 0,
		"3651d": 0, "1000000h": 0, "87600h1ns": 0, "99999999999999999999999999999999999h": 0, "1h 30": 0, "0x1h": 0, "1_0h": 0, "1 h": 0,
	} {
		got, err := dag.ParseDuration(text)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]dag.GiB{
		"2GiB": 2, "2": 2, "0.5": 0.5, "512MiB": 0.5, " 1 TiB ": 1024, "1073741824B": 1, "2Gi": 2, "150GB": 150e9 / (1 << 30), "1e3": 1000, "1EiB": dag.MaxSize,
		"1kB": 1000. / (1 << 30), "0": 0, "0B": 0, "1e-3GiB": 0.001,
		"": -1, "GiB": -1, "-1": -1, "1G": -1, "1gib": -1, "1 2": -1, "NaN": -1, "inf": -1, "1e400": -1, "2EiB": -1, "0x10": -1, "1_000": -1, "1GiBB": -1,
	} {
		got, err := dag.ParseSize(text)
		if (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseCPUsAndMemory(t *testing.T) {
	for text, want := range map[string]dag.Range{
		"8": {8, 8}, "8+": {8, 0}, "8-16": {8, 16}, "0-16": {0, 16}, "0.5+": {0.5, 0}, "1e-1-2e0": {0.1, 2}, " 4+ ": {4, 0}, "1e5": {1e5, 1e5},
		"": {}, "+": {}, "0": {}, "0+": {}, "0-0": {}, "-8": {}, "8-": {}, "-": {}, "8--9": {}, "16-8": {}, "8+16": {}, "8-16+": {}, "8++": {}, "x": {}, "1e6": {}, "NaN+": {},
	} {
		got, err := dag.ParseCPUs(text)
		if (err == nil) != !want.IsZero() || err == nil && got != want {
			t.Errorf("cpus %q are %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]dag.Range{
		"32+": {32, 0}, "512MiB-1GiB": {0.5, 1}, "64 GiB +": {}, "16GiB+": {16, 0}, "0GiB+": {}, "1PiB+": {},
	} {
		got, err := dag.ParseMemory(text)
		if text == "64 GiB +" {
			want = dag.Range{64, 0}
		}
		if text == "1PiB+" { // no machine has a whole pebibyte
			want = dag.Range{}
		}
		if (err == nil) != !want.IsZero() || err == nil && got != want {
			t.Errorf("memory %q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestNumberAloneIsMinimum(t *testing.T) {
	for text, want := range map[string]dag.Range{
		"8": {Min: 8}, "8+": {Min: 8}, "=8": {Min: 8, Max: 8}, " = 8 ": {Min: 8, Max: 8}, "8-16": {Min: 8, Max: 16}, "8-8": {Min: 8, Max: 8},
		"=8+": {}, "=8-16": {}, "=8-8": {}, "==8": {}, "=": {}, "8=": {}, "=0": {},
	} {
		if got, err := dag.ParseCPUsAtLeast(text); got != want && err == nil || (err == nil) != (want != dag.Range{}) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]dag.Range{
		"16": {Min: 16}, "16GB": {Min: 16}, "=16GB": {Min: 16, Max: 16}, "512MB-1GiB": {Min: 0.5, Max: 1},
	} {
		if got, err := dag.ParseMemoryAtLeast(text); got != want || err != nil {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]dag.USD{
		"40": 40, "40 USD": 40, "40USD": 40, "$40": 40, "0.5": 0.5, "1e3": 1000,
		"": 0, "USD": 0, "$": 0, "-1": 0, "0": 0, "NaN": 0, "1e10": 0, "40 €": 0,
	} {
		got, err := dag.ParseBudget(text)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseAcceleratorNormalisesNames(t *testing.T) {
	for text, want := range map[string]string{
		"V100": "V100:1", "v100:4": "V100:4", "nvidia-tesla-v100:0.5": "V100:0.5", "A100-40GB:1": "A100:1", "tpu-v3-8": "tpu-v3-8:1", " T4 : 2 ": "T4:2",
		"Own-Chip-9000:3": "Own-Chip-9000:3",
	} {
		name, count, err := dag.ParseAccelerator(text)
		if err != nil || dag.AcceleratorKey(name, count) != want {
			t.Errorf("%q is %s, %v; want %s", text, dag.AcceleratorKey(name, count), err, want)
		}
	}
	for _, text := range []string{"", ":4", "V100:", "V100:-1", "V100:1e9", "V100:1:2", "V10O", "p3", "a b\n"} {
		if name, count, err := dag.ParseAccelerator(text); err == nil {
			t.Errorf("%q is %s", text, dag.AcceleratorKey(name, count))
		}
	}
}

func TestTimeEstimateForPrefersMostSpecific(t *testing.T) {
	e := dag.TimeEstimate{Default: 5, On: map[string]time.Duration{"V100": 4, "V100:8": 3, "p3.16xlarge": 2}}
	for _, c := range []struct {
		instance, accelerator string
		count                 float64
		want                  time.Duration
	}{
		{"p3.16xlarge", "V100", 8, 2}, {"x", "V100", 8, 3}, {"x", "V100", 4, 4}, {"x", "T4", 1, 5}, {"", "", 0, 2},
	} {
		if got := e.For(c.instance, c.accelerator, c.count, 2, 1); got != c.want {
			t.Errorf("on %s with %v %s: %v, want %v", c.instance, c.count, c.accelerator, got, c.want)
		}
	}
	counted := dag.TimeEstimate{FLOPs: 3e18, Efficiency: 0.4, On: map[string]time.Duration{"T4": 7}}
	for _, c := range []struct {
		accelerator string
		count       float64
		nodes       int
		want        time.Duration
		fits        bool
	}{
		{"V100", 1, 1, 60000 * time.Second, true}, {"V100", 8, 2, 3750 * time.Second, true},
		{"T4", 8, 2, 7, true}, {"tpu-v3-8", 1, 1, 15243902439024, true},
		{"Alveo-U250", 1, 1, dag.DefaultTime, false}, {"", 0, 1, dag.DefaultTime / 2, false},
	} {
		if got := counted.For("x", c.accelerator, c.count, 2, c.nodes); got != c.want {
			t.Errorf("3e18 operations on %d × %v %s: %v, want %v", c.nodes, c.count, c.accelerator, got, c.want)
		}
		if got := counted.Fits("x", c.accelerator, c.count); got != c.fits {
			t.Errorf("%s fits: %v", c.accelerator, got)
		}
	}
	if got := (&dag.TimeEstimate{}).For("x", "", 0, 0, 1); got != dag.DefaultTime {
		t.Errorf("unknown is %v", got)
	}
}

func TestRangeHolds(t *testing.T) {
	for _, c := range []struct {
		r    dag.Range
		v    float64
		want bool
	}{
		{dag.Range{}, 0, true}, {dag.Range{4, 4}, 4, true}, {dag.Range{4, 4}, 8, false}, {dag.Range{4, 0}, math.MaxFloat64, true}, {dag.Range{4, 0}, 3, false}, {dag.Range{0, 8}, 9, false},
	} {
		if c.r.Contains(c.v) != c.want {
			t.Errorf("%v of %v: %v", c.v, c.r, !c.want)
		}
	}
}

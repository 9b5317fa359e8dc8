package dag

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

func TestParseErrorsOfQuantities(t *testing.T) {
	size := func(s string) error { _, err := ParseSize(s); return err }
	dur := func(s string) error { _, err := ParseDuration(s); return err }
	cpus := func(s string) error { _, err := ParseCPUs(s); return err }
	whole := func(s string) error { _, err := jobtext.ParseInt(s, 0, 2e9); return err }
	key := func(s string) error { _, err := TimeKey(s); return err }
	for _, c := range []struct {
		of   func(string) error
		text string
		want string
	}{
		{dur, "90", `the time "90" has no unit`}, {dur, "0", "must be more than 0"}, {dur, "0s", "must be more than 0"},
		{dur, "-1h", "a time cannot be negative"}, {dur, "1x", `"1x" is not a time`}, {dur, ".h", `".h" is not a time`},
		{dur, "3651d", `"3651d" is more than 87600h`}, {dur, strings.Repeat("0", 33) + "h", `"000`},
		{dur, "87600h1s", `"87600h1s" is more`},
		{size, "-1", "a size cannot be negative"}, {size, "2EiB", "a size of more than 1EiB"},
		{size, "1G", `"1G" is not a size`},
		{cpus, "0+", "no machine has 0 cpus"}, {cpus, "0", "no machine has 0 cpus"}, {cpus, "0-0", "no machine has 0 cpus"},
		{cpus, "x", `"x" is not an amount of cpus`}, {cpus, "1e6", "is more than any machine has"},
		{cpus, "-1", "cannot be negative"},
		{whole, "1.5", `"1.5" is not a whole number`}, {whole, "x", `"x" is not a whole number`},
		{whole, "1e10", `"1e10" is not`},
		{whole, "1e9", ""}, {whole, "-1", "-1 is out of bounds"}, {whole, "0", ""},
		{key, "V100", ""}, {key, "p3.2xlarge", ""}, {key, "V10O", "unknown accelerator"},
		{key, "p3", `"p3" is a family`}, {key, "V100:x", `"V100:x" has no count`},
	} {
		err := c.of(c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	if got, err := TimeKey("v100:2"); got != "V100:2" || err != nil {
		t.Errorf("%s %v", got, err)
	}
	if got, err := ParseDuration("87599h 60m"); got != MaxDuration || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if got, err := ParseDuration(strings.Repeat("0", 31) + "1h"); got != time.Hour || err != nil {
		t.Errorf("with 32 digits: %v %v", got, err)
	}
	if _, err := jobtext.ParseNumber(strings.Repeat("0", 64)); err != nil {
		t.Errorf("of 64 digits: %v", err)
	}
	if _, err := jobtext.ParseNumber(strings.Repeat("0", 65)); err == nil {
		t.Error("a number has 65 digits")
	}
}

func TestParseSizeInDecimalUnits(t *testing.T) {
	for unit, bytes := range map[string]float64{
		"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
		"Ki": 1 << 10, "KiB": 1 << 10, "Mi": 1 << 20, "GiB": 1 << 30, "Ti": 1 << 40, "PiB": 1 << 50,
	} {
		got, err := ParseSize("3" + unit)
		if want := 3 * bytes; err != nil || float64(got)*(1<<30)-want > 1e-6*want || want-float64(got)*(1<<30) > 1e-6*want {
			t.Errorf("3%s are %v bytes, not %v; %v", unit, float64(got)*(1<<30), want, err)
		}
	}
	if got, err := ParseSize("1EB"); err != nil || got >= MaxSize || got < 0.8*MaxSize {
		t.Errorf("%v %v", got, err)
	}
}

// TestFormatNumbers checks that a number has an exponent only if it is too large or small to be written without one.
func TestFormatNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 1e-6: "0.000001", 9e-7: "9e-07",
		999999999999999: "999999999999999", 1e15: "1e+15", -2: "-2",
	} {
		if got := jobtext.FormatNumber(v); got != want {
			t.Errorf("%v is written %s, not %s", v, got, want)
		}
	}
	for g, want := range map[GiB]string{
		1: "1GiB", 1024: "1TiB", 0.5: "512MiB", 1536: "1536GiB", 0: "0GiB", MaxSize: "1EiB", 1. / (1 << 30): "1B",
	} {
		if got := FormatSize(g); got != want {
			t.Errorf("%v is written %s, not %s", float64(g), got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 90 * time.Minute: "1h30m", time.Minute: "1m", 30 * time.Second: "30s",
		time.Hour + time.Second: "1h0m1s", 10 * time.Hour: "10h",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is written %s, not %s", d, got, want)
		}
	}
}

func TestCycleErrorListsTenTasks(t *testing.T) {
	for n, want := range map[int]string{
		2:  "t0 → t1 → t0",
		10: "t0 → t1 → t2 → t3 → t4 → t5 → t6 → t7 → t8 → t9 → t0",
		11: "t0 → t1 → t2 → t3 → t4 → t5 → t6 → t7 → … 2 more … → t10 → t0",
	} {
		j := numbered(n)
		for i := range n {
			j.Edges = append(j.Edges, Edge{From: i, To: (i + 1) % n})
		}
		err := j.Validate()
		if err == nil || !strings.Contains(err.Error(), "wait for each other: "+want+" (") {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if _, path, err := (&Job{}).CriticalPath(nil); path != nil || err != nil {
		t.Errorf("the longest path of no tasks is %v, %v", path, err)
	}
}

func TestValidateRejectsSingleFaults(t *testing.T) {
	for want, change := range map[string]func(*Job){
		"patience: the job does not wait":     func(j *Job) { j.Infeasible, j.Patience = Fail, 1 },
		"patience: a time cannot be negative": func(j *Job) { j.Patience = -1 },
		"tasks.a.workdir: is both": func(j *Job) {
			j.Tasks[0].Workdir, j.Tasks[0].Repository = "x", &Repository{URL: "/x"}
		},
		`tasks.a.workdir.url: is empty`: func(j *Job) { j.Tasks[0].Repository = &Repository{} },
		`tasks.a.workdir.ref: "-x" is not`: func(j *Job) {
			j.Tasks[0].Repository = &Repository{URL: "/x", Ref: "-x"}
		},
		"tasks.a.secrets.A: is not in order":   func(j *Job) { j.Tasks[0].Secrets = []string{"A", "A"} },
		`edges[0]: from task 2 to task 1 of 2`: func(j *Job) { j.Edges = []Edge{{From: 2, To: 1}} },
		`edges[1]: from task 0 to task -1 of 2`: func(j *Job) {
			j.Edges = []Edge{{From: 1, To: 0}, {From: 0, To: -1}}
		},
		`tasks.b.after: task "a" has no output "x"`: func(j *Job) {
			j.Edges = []Edge{{From: 0, To: 1, Outputs: []string{"x"}}}
		},
		"tasks.a.outputs[1].name: there are two outputs": func(j *Job) {
			j.Tasks[0].Outputs = []Output{{Name: "o"}, {Name: "o"}}
		},
		`tasks.a.resources.accelerators: "V100,A" is not`: func(j *Job) { j.Tasks[0].Resources[0].Accelerator = "V100,A" },
		"tasks.a.resources.accelerators: NaN is not a valid number": func(j *Job) {
			j.Tasks[0].Resources[0] = Resources{Accelerator: "V100", AcceleratorCount: math.NaN()}
		},
	} {
		j := tasksNamed("a", "b")
		change(j)
		if err := j.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v\nwant\n%s", err, want)
		}
	}
	j := tasksNamed("a", "b")
	j.Infeasible = Fail // patience does not apply
	j.Edges = []Edge{{From: 1, To: 0}}
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
}

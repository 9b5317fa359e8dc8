package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func job(names ...string) *dag.Job {
	j := &dag.Job{Name: "nightly"}
	for _, name := range names {
		j.Tasks = append(j.Tasks, dag.Task{Name: name, Run: "true", Nodes: 1, Resources: []dag.Resources{{}}})
	}
	return j
}

// after returns the history after one job for each of the given run times, in hours.
func after(spec *dag.Job, machine string, hours ...float64) (h apitypes.History) {
	for n, x := range hours {
		h = Learn(h, spec, []Run{{Task: 0, Hours: x, Machine: machine}}, now.Add(time.Duration(n)*time.Hour))
	}
	return h
}

func TestTaskWithoutTimeUsesHistory(t *testing.T) {
	spec := job("train")
	got := Fill(spec, after(spec, "m5.xlarge", 2, 2, 2, 2, 2, 2, 2, 2))
	f := FigureOf(&got.Tasks[0], apitypes.Offer{InstanceType: "m5.xlarge"})
	if f.From != apitypes.FromHistory || f.Runs != 8 || math.Abs(f.Hours-2) > 0.05 || !(f.LowHours < 1.9 && f.HighHours > 2.1) {
		t.Errorf("%+v", f)
	}
	if spec.Tasks[0].Learned != nil || spec.Tasks[0].Time.Default != 0 {
		t.Error("the given job was changed")
	}
	spec.Deadline = 5 * time.Hour
	got = Fill(spec, after(spec, "m5.xlarge", 2, 2, 2, 2, 2, 2, 2, 2))
	if careful := FigureOf(&got.Tasks[0], apitypes.Offer{InstanceType: "m5.xlarge"}); math.Abs(careful.Hours-f.HighHours) > 0.01 {
		t.Errorf("with a deadline it is planned with %v of %+v", careful.Hours, f)
	}
}

// Runs on several numbers of machines show how the work scales. Here, 10 % of the work is serial.
func TestRunsOnSeveralNodesTellHowWorkScales(t *testing.T) {
	spec := job("train")
	spec.Tasks[0].Nodes, spec.Tasks[0].MaxNodes = 1, 16
	var h apitypes.History
	for _, hours := range map[int]float64{1: 8, 2: 4.4, 4: 2.6} {
		n := map[float64]int{8: 1, 4.4: 2, 2.6: 4}[hours]
		for range 8 {
			h = Learn(h, spec, []Run{{Hours: hours, Nodes: n, Machine: "V100:1"}}, now)
		}
	}
	got := &Fill(spec, h).Tasks[0]
	if s := got.Learned.Serial; s == nil || math.Abs(*s-0.1) > 1e-9 {
		t.Fatalf("serial %v", s)
	}
	for n, want := range map[int]float64{1: 8, 2: 4.4, 4: 2.6, 16: 1.25} {
		f := FigureOf(got, apitypes.Offer{Accelerator: "V100", AccelCount: 1, Nodes: n})
		if f.From != apitypes.FromHistory || f.Runs != 24 || math.Abs(f.Hours-want) > want/50 ||
			math.Abs(f.LearnedHours-f.Hours) > 0.01 {
			t.Errorf("%d nodes: %+v, want %v hours", n, f, want)
		}
	}
	alone := Learn(apitypes.History{}, spec, []Run{{Hours: 2, Nodes: 4, Machine: "V100:1"}}, now)
	if one := Fill(spec, alone).Tasks[0].TimeOn("", "V100", 1, 1, 1).Hours(); math.Abs(one-8) > 1 {
		t.Errorf("from one run of 2 hours on 4 nodes: %v hours on one", one)
	}
}

func TestTimeFromFileWinsAndHistoryIsShown(t *testing.T) {
	spec := job("train")
	spec.Tasks[0].Time.Default = 5 * time.Hour
	got := Fill(spec, after(spec, "m5.xlarge", 2))
	f := FigureOf(&got.Tasks[0], apitypes.Offer{InstanceType: "m5.xlarge"})
	if f.From != apitypes.FromFile || f.Hours != 5 || f.Runs != 1 || math.Abs(f.LearnedHours-2) > 0.3 {
		t.Errorf("%+v", f)
	}
	if f := FigureOf(&job("x").Tasks[0], apitypes.Offer{}); f != (apitypes.Figure{Hours: 1, From: apitypes.FromNothing}) {
		t.Errorf("%+v", f)
	}
}

func TestUnseenAcceleratorIsScaled(t *testing.T) {
	spec := job("train")
	spec.Tasks[0].Resources = []dag.Resources{{Accelerator: "V100", AcceleratorCount: 1},
		{Accelerator: "A100", AcceleratorCount: 2}, {Accelerator: "Alveo-U250", AcceleratorCount: 1}}
	got := Fill(spec, after(spec, "V100:1", 5, 5, 5, 5))
	on := func(name string, count float64) apitypes.Figure {
		return FigureOf(&got.Tasks[0], apitypes.Offer{Accelerator: name, AccelCount: count})
	}
	v100, a100 := on("V100", 1), on("A100", 2)
	if v100.From != apitypes.FromHistory || a100.From != apitypes.FromScaled || math.Abs(v100.Hours/a100.Hours-2*312./125) > 0.01 {
		t.Errorf("V100 %+v, A100 %+v", v100, a100)
	}
	if f := on("Alveo-U250", 1); f.From != apitypes.FromHistory || f.Hours != v100.Hours { // its speed is unknown
		t.Errorf("%+v", f)
	}
}

func TestTasksThatDifferInNumbersShareHistory(t *testing.T) {
	spec := job("shard-1", "shard-2", "merge")
	h := Learn(apitypes.History{}, spec, []Run{{Task: 0, Hours: 1, Machine: "m5.large"}, {Task: 1, Hours: 4, Machine: "m5.large"},
		{Task: 2, Hours: 8, Machine: "m5.large"}}, now)
	got := Fill(job("shard-1", "shard-77", "other"), h)
	for i, want := range []apitypes.Figure{{From: apitypes.FromHistory, Runs: 1}, {From: apitypes.FromLike, Runs: 2}, {From: apitypes.FromNothing}} {
		f := FigureOf(&got.Tasks[i], apitypes.Offer{InstanceType: "m5.large"})
		if f.From != want.From || f.Runs != want.Runs {
			t.Errorf("%s: %+v", got.Tasks[i].Name, f)
		}
	}
	spec.Tasks[0].Nodes = 2
	if got := Fill(spec, h); got.Tasks[0].Learned != nil {
		t.Errorf("two machines use the time of one: %+v", got.Tasks[0].Learned)
	}
	if other := (&dag.Job{Name: "another", Tasks: spec.Tasks}); Fill(other, h) != other {
		t.Error("a job of another name uses the history")
	}
}

func TestHistoryFollowsChanges(t *testing.T) {
	spec := job("train")
	h := after(spec, "m5.large", slices.Repeat([]float64{1}, 200)...)
	for range 3 * maxWeight {
		h = Learn(h, spec, []Run{{Task: 0, Hours: 3, Machine: "m5.large"}}, now)
	}
	if s := spread(h.Tasks["train"]["m5.large"]); math.Abs(s.Hours-3) > 0.35 {
		t.Errorf("%+v", s)
	}
}

// Run times are lognormal. Nine of ten must be below High, and nine of ten above Low.
func TestSpreadCoversItsQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same every time
	spec := job("train")
	var below, above, all int
	for range 300 {
		var h apitypes.History
		for range 12 {
			h = Learn(h, spec, []Run{{Task: 0, Hours: 2 * math.Exp(0.3*r.NormFloat64()), Machine: "x"}}, now)
		}
		s := spread(h.Tasks["train"]["x"])
		for range 20 {
			x := 2 * math.Exp(0.3*r.NormFloat64())
			all++
			if x < s.Low {
				below++
			}
			if x > s.High {
				above++
			}
		}
	}
	for _, n := range []int{below, above} {
		if share := float64(n) / float64(all); share < 0.07 || share > 0.13 {
			t.Errorf("%.3f below, %.3f above", float64(below)/float64(all), float64(above)/float64(all))
		}
	}
}

func TestOfAResumedAttempt(t *testing.T) {
	task := &dag.Task{Time: dag.TimeEstimate{Default: 4 * time.Hour}}
	a := apitypes.Attempt{Number: 3, Started: now, Resumed: 0.5, Offer: apitypes.Offer{InstanceType: "m5.large"}}
	rec := record.Task{State: record.TaskSucceeded, Attempt: 3, EndedAt: now.Add(90 * time.Minute)}
	if r, ok := RunOf(task, rec, a); !ok || r != (Run{Hours: 3.5, Machine: "m5.large"}) {
		t.Errorf("%+v %v", r, ok)
	}
	for what, change := range map[string]func(){
		"a task that failed":      func() { rec.State = record.TaskFailed },
		"another attempt":         func() { a.Number = 2 },
		"one that never started":  func() { a.Started = time.Time{} },
		"one of unknown machines": func() { a.Offer.InstanceType = "" },
		"one that ended before":   func() { rec.EndedAt = now.Add(-9 * time.Hour) },
	} {
		rec0, a0 := rec, a
		if change(); func() bool { _, ok := RunOf(task, rec, a); return ok }() {
			t.Errorf("%s is learned from", what)
		}
		rec, a = rec0, a0
	}
}

// The history learns from at most eight tasks of an array. Reading 64 records twice at the end of each job was a
// noticeable part of the job's bill, and eight tasks show as much.
func TestSampleOfArrayIsSmall(t *testing.T) {
	for tasks, want := range map[int]int{1: 1, 16: 16, 17: 8, 10_000: 8} {
		names := make([]string, tasks)
		for i := range names {
			names[i] = fmt.Sprintf("shard-%d", i)
		}
		if got := Sample(job(append(names, "merge")...)); len(got) != want+1 || got[want] != tasks {
			t.Errorf("of %d: %v", tasks, got)
		}
	}
}

// The numbers of records that are read and stored have limits, however large a job is and however many jobs ran
// before it. Every kind of task is learned nevertheless.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := &dag.Job{Name: "j"}
		kinds := rapid.IntRange(1, 80).Draw(t, "kinds")
		for i := range rapid.IntRange(1, 3000).Draw(t, "tasks") {
			spec.Tasks = append(spec.Tasks, dag.Task{Name: fmt.Sprintf("%c%c-%d", 'a'+i%kinds%26, 'a'+i%kinds/26, i), Run: "true"})
		}
		sample := Sample(spec)
		if len(sample) > MaxSample || !distinct(sample) {
			t.Fatalf("%d of %d tasks: %v", len(sample), len(spec.Tasks), sample)
		}
		seen, all := map[string]bool{}, map[string]bool{}
		for i := range spec.Tasks {
			_, like := names(&spec.Tasks[i], spec.Tasks[i].Nodes)
			all[like] = true
			seen[like] = seen[like] || slices.Contains(sample, i)
		}
		if want := min(len(all), MaxSample); count(seen) != want {
			t.Fatalf("%d of %d kinds are learned", count(seen), want)
		}
		var h apitypes.History
		for n := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			var runs []Run
			for _, i := range sample {
				runs = append(runs, Run{Task: i, Hours: rapid.Float64Range(1e-4, 1e4).Draw(t, "hours"),
					Machine: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "machine")})
			}
			before := h
			h = Learn(h, spec, runs, now.Add(time.Duration(n)*time.Hour))
			if again := Learn(before, spec, runs, now.Add(time.Duration(n)*time.Hour)); !reflect.DeepEqual(h, again) {
				t.Fatal("the result depends on the order of a map")
			}
		}
		if len(h.Tasks) > maxTasks {
			t.Fatalf("%d names are stored", len(h.Tasks))
		}
		for name, machines := range h.Tasks {
			if len(machines) > maxMachines {
				t.Fatalf("%s: %d machines are stored", name, len(machines))
			}
		}
		filled := Fill(spec, h)
		for i := range filled.Tasks {
			e := filled.Tasks[i].Time
			if f := filled.Tasks[i].Learned; f != nil && (e.Default < time.Second || e.Default > dag.MaxDuration) {
				t.Fatalf("%+v of %+v", e, f)
			}
		}
	})
}

func distinct(of []int) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(of)))) == len(of)
}

func count(m map[string]bool) (n int) {
	for _, yes := range m {
		if yes {
			n++
		}
	}
	return n
}

// A run time that was learned on a fast machine becomes longer on a slow one. If a job file names the machine of a
// time, the speed of that machine counts.
func TestTimesFollowSpeedOfMachine(t *testing.T) {
	spec := job("train")
	h := Learn(apitypes.History{}, spec, []Run{{Task: 0, Hours: 1, Machine: "c7a.large", Speed: 2}}, now)
	learned := &Fill(job("train"), h).Tasks[0]
	if f := FigureOf(learned, apitypes.Offer{InstanceType: "m5.large", Speed: 0.5}); math.Abs(f.Hours/FigureOf(learned, apitypes.Offer{}).Hours-2) > 0.01 {
		t.Errorf("at half the speed: %+v", f)
	}
	same := FigureOf(learned, apitypes.Offer{InstanceType: "c7a.large", Speed: 2})
	if other := FigureOf(learned, apitypes.Offer{InstanceType: "c8a.large", Speed: 2}); math.Abs(other.Hours-same.Hours) > 0.01 {
		t.Errorf("at the same speed: %+v, %+v", other, same)
	}
	tpu := Fill(&dag.Job{Name: "j", Tasks: []dag.Task{{Name: "x", Time: dag.TimeEstimate{
		On: map[string]time.Duration{"tpu-v3-8": time.Hour, "V100": 2 * time.Hour}}}}}, apitypes.History{}).Tasks[0].Time
	if tpu.Default != 0 || tpu.Speed != 0 {
		t.Errorf("times of accelerators became a time of processors: %+v", tpu)
	}
	fast, _ := hardware.SpeedOf("c7a.large")
	for name, task := range map[string]dag.Task{
		"reference": {Reference: "c7a.large", Time: dag.TimeEstimate{Default: time.Hour}},
		"on a type": {Time: dag.TimeEstimate{On: map[string]time.Duration{"c7a.large": time.Hour}}},
	} {
		task.Name = "x"
		filled := Fill(&dag.Job{Name: "j", Tasks: []dag.Task{task}}, apitypes.History{}).Tasks[0].Time
		if got := filled.For("m6i.xlarge", "", 0, 1, 1).Hours(); math.Abs(got-fast.Typical) > 0.01 {
			t.Errorf("%s: %v hours at speed 1, c7a.large has %v", name, got, fast.Typical)
		}
		if got := filled.For("c7a.large", "", 0, fast.Typical, 1); got.Round(time.Second) != time.Hour {
			t.Errorf("%s: %v on c7a.large itself", name, got)
		}
	}
}

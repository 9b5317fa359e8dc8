package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const (
	// normal90 is the 90th percentile of the standard normal distribution.
	normal90 = 1.2816
	// priorVar and priorRuns are the prior of the spread: a factor of 1.35, which has the weight of two runs.
	priorVar, priorRuns = 0.09, 2
)

// spread returns the predicted spread of one more run. The fewer runs were observed, the wider it is.
func spread(t apitypes.RunTimes) dag.Spread {
	n := float64(min(t.Runs, maxWeight))
	v := (n*t.Var + priorRuns*priorVar) / (n + priorRuns) * (1 + 1/n)
	s := math.Sqrt(v)
	return dag.Spread{Runs: t.Runs, Hours: math.Exp(t.Log + v/2), Low: math.Exp(t.Log - normal90*s),
		High: math.Exp(t.Log + normal90*s)}
}

// pooled combines the distributions of several machines, weighted by their numbers of runs. The resulting times are
// for a machine of speed 1.
func pooled(of map[string]apitypes.RunTimes) (all apitypes.RunTimes) {
	var sum, squares, weights float64
	for _, m := range slices.Sorted(maps.Keys(of)) { // in a fixed order, because floating-point sums depend on it
		t := of[m]
		w := float64(min(t.Runs, maxWeight))
		mean := t.Log + math.Log(cmp.Or(t.Speed, 1))
		weights += w
		sum += w * mean
		squares += w * (t.Var + mean*mean)
		all.Runs += t.Runs
	}
	if weights == 0 {
		return all
	}
	all.Log = sum / weights
	all.Var = max(squares/weights-all.Log*all.Log, 0)
	return all
}

// Fill returns a job that includes the learned run times of its tasks. If the file of a task states no run time, the
// task is planned with the learned one. That is the expected time, or in a job with a deadline the time that one run
// in ten exceeds. spec is not changed.
func Fill(spec *dag.Job, h apitypes.History) *dag.Job {
	spec = atReference(spec)
	if h.Job != spec.Name {
		return spec
	}
	filled := spec
	for i := range spec.Tasks {
		learned := learnedOf(&spec.Tasks[i], h)
		if learned == nil {
			continue
		}
		if filled == spec {
			copied := *spec
			copied.Tasks = slices.Clone(spec.Tasks)
			filled = &copied
		}
		t := &filled.Tasks[i]
		if t.Learned = learned; t.Time.Unknown() {
			learned.Used = true
			t.Time = estimate(learned, spec.Deadline > 0)
		}
	}
	return filled
}

// atReference returns the job with the speeds of the machines on which its times were measured. If a task has times
// only for machine types, other types get their mean, scaled by speed. spec is not changed.
func atReference(spec *dag.Job) *dag.Job {
	known := spec
	for i := range spec.Tasks {
		e := referenced(&spec.Tasks[i])
		if e.Speed == spec.Tasks[i].Time.Speed && e.Default == spec.Tasks[i].Time.Default {
			continue
		}
		if known == spec {
			copied := *spec
			copied.Tasks = slices.Clone(spec.Tasks)
			known = &copied
		}
		known.Tasks[i].Time = e
	}
	return known
}

// referenced returns a task's estimate with its Speed set.
func referenced(t *dag.Task) dag.TimeEstimate {
	e := t.Time
	if e.Only || e.FLOPs > 0 && e.Default == 0 {
		return e // the estimate is only for machines with a time or a rating
	}
	if e.Default > 0 || len(e.ByNodes) > 0 {
		if s, ok := hardware.SpeedOf(t.Reference); ok && e.Speed == 0 {
			e.Speed = s.Typical
		}
		return e
	}
	var logs, n float64
	for _, machine := range slices.Sorted(maps.Keys(e.On)) {
		// the name of a TPU is also the name of its machine type
		if s, ok := hardware.SpeedOf(machine); ok && accel.TFLOPS(machine) == 0 {
			logs, n = logs+math.Log(e.On[machine].Seconds()*s.Typical), n+1
		}
	}
	if n > 0 {
		e.Default, e.Speed = time.Duration(math.Exp(logs/n)*float64(time.Second)).Round(time.Second), 1
	}
	return e
}

// learnedOf returns the learned run times of a task, or nil.
func learnedOf(t *dag.Task, h apitypes.History) *dag.Learned {
	if t.StandIn() || t.Service != nil {
		return nil
	}
	l := &dag.Learned{On: map[string]dag.Spread{}}
	own, like := names(t, t.Nodes)
	known := h.Tasks[own]
	if t.MaxNodes > 0 {
		known, l.Serial = scaled(t, h, func(n int) string { own, _ := names(t, n); return own })
	}
	if len(known) == 0 {
		known, l.Like = h.Tasks[like], true
		if t.MaxNodes > 0 {
			known, l.Serial = scaled(t, h, func(n int) string { _, like := names(t, n); return like })
		}
	}
	if len(known) == 0 {
		return nil
	}
	for m, times := range known {
		l.On[m] = spread(times)
	}
	l.On[""] = spread(pooled(known))
	for i := range t.Resources {
		if r := &t.Resources[i]; r.Accelerator != "" {
			scale(l, r.Accelerator, cmp.Or(r.AcceleratorCount, 1), known)
		}
	}
	return l
}

// scale adds the expected time on an accelerator on which the task never ran. It scales the time of the accelerator
// with the most runs by the ratio of both speeds. This assumes that the work keeps both equally busy.
func scale(l *dag.Learned, name string, count float64, known map[string]apitypes.RunTimes) {
	key := dag.AcceleratorKey(name, count)
	speed := count * accel.TFLOPS(name)
	if _, ran := l.On[key]; ran || !(speed > 0) {
		return
	}
	var by apitypes.RunTimes
	var did float64
	for _, m := range slices.Sorted(maps.Keys(known)) {
		if s := speedOf(m); s > 0 && known[m].Runs > by.Runs {
			by, did = known[m], s
		}
	}
	if by.Runs == 0 {
		return
	}
	s, factor := spread(by), did/speed
	s.Hours, s.Low, s.High, s.Scaled = s.Hours*factor, s.Low*factor, s.High*factor, true
	l.On[key] = s
}

// speedOf returns the speed of a machine's accelerators in TFLOPS, or 0 if it is unknown.
func speedOf(machine string) float64 {
	name, digits, ok := strings.Cut(machine, ":")
	count, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil {
		return 0
	}
	return count * accel.TFLOPS(name)
}

// estimate returns the time estimate that a task is planned with.
func estimate(l *dag.Learned, careful bool) dag.TimeEstimate {
	e := dag.TimeEstimate{On: make(map[string]time.Duration, len(l.On)), Serial: l.Serial}
	for m, s := range l.On {
		hours := s.Hours
		if careful {
			hours = s.High
		}
		d := time.Duration(min(hours*float64(time.Hour), float64(dag.MaxDuration))).Round(time.Second)
		if d = max(d, time.Second); m == "" {
			e.Default = d
		} else {
			e.On[m] = d
		}
	}
	return e
}

// Unlearned returns a job as its file states it, without the run times that were learned before its submission. More
// may be known now.
func Unlearned(spec *dag.Job) *dag.Job {
	again := *spec
	again.Tasks = slices.Clone(spec.Tasks)
	for i := range again.Tasks {
		t := &again.Tasks[i]
		if t.Learned != nil && t.Learned.Used {
			t.Time = dag.TimeEstimate{}
		}
		t.Learned = nil
	}
	return &again
}

// KeepLearned returns the spec that replaces old, which has the same tasks. Tasks that are not services keep their
// learned run times. If the new file states no run time for them, they also keep the one with which they were
// submitted. spec is not changed.
func KeepLearned(spec, old *dag.Job) *dag.Job {
	kept := *spec
	kept.Tasks = slices.Clone(spec.Tasks)
	for i := range kept.Tasks {
		t, was := &kept.Tasks[i], old.Tasks[i]
		if t.Service != nil {
			continue
		}
		if t.Learned = was.Learned; t.Time.Unknown() {
			t.Time = was.Time
		} else if was.Learned != nil && was.Learned.Used {
			unused := *was.Learned
			t.Learned, unused.Used = &unused, false
		}
	}
	return &kept
}

package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const (
	// normal90 is how many standard deviations nine of ten draws of a normal distribution do not lie above.
	normal90 = 1.2816
	// priorVar and priorRuns are what is assumed of the spread before it was seen: a factor of 1.35, as if two runs had
	// shown it.
	priorVar, priorRuns = 0.09, 2
)

// spread is what follows from a distribution for one run more: what is seen of few runs is spread wider.
func spread(t apitypes.RunTimes) dag.Spread {
	n := float64(min(t.Runs, maxWeight))
	v := (n*t.Var + priorRuns*priorVar) / (n + priorRuns) * (1 + 1/n)
	s := math.Sqrt(v)
	return dag.Spread{Runs: t.Runs, Hours: math.Exp(t.Log + v/2), Low: math.Exp(t.Log - normal90*s),
		High: math.Exp(t.Log + normal90*s)}
}

// pooled is one distribution of those of several machines: each counts as often as it ran there.
func pooled(of map[string]apitypes.RunTimes) (all apitypes.RunTimes) {
	var sum, squares, weights float64
	for _, m := range slices.Sorted(maps.Keys(of)) { // sums of numbers depend on their order
		t := of[m]
		w := float64(min(t.Runs, maxWeight))
		weights += w
		sum += w * t.Log
		squares += w * (t.Var + t.Log*t.Log)
		all.Runs += t.Runs
	}
	if weights == 0 {
		return all
	}
	all.Log = sum / weights
	all.Var = max(squares/weights-all.Log*all.Log, 0)
	return all
}

// Fill returns a job whose tasks know what was learned of them. A task whose file does not say how long it runs is
// planned by it: with what is expected, and in a job with a deadline with what one run in ten exceeds. The job that it
// is given is not changed.
func Fill(spec *dag.Job, h apitypes.History) *dag.Job {
	if h.Job != spec.Name {
		return spec
	}
	filled := spec
	for i := range spec.Tasks {
		learned := of(&spec.Tasks[i], h)
		if learned == nil {
			continue
		}
		if filled == spec {
			copied := *spec
			copied.Tasks = slices.Clone(spec.Tasks)
			filled = &copied
		}
		t := &filled.Tasks[i]
		if t.Learned = learned; t.Time.Default == 0 && len(t.Time.On) == 0 {
			learned.Used = true
			t.Time = estimate(learned, spec.Deadline > 0)
		}
	}
	return filled
}

// of is what is known of a task; nil is nothing.
func of(t *dag.Task, h apitypes.History) *dag.Learned {
	if t.StandIn() || t.Service != nil {
		return nil
	}
	own, like := names(t)
	l := &dag.Learned{On: map[string]dag.Spread{}}
	known := h.Tasks[own]
	if len(known) == 0 {
		known, l.Like = h.Tasks[like], true
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

// scale adds what is expected of an accelerator that the task never ran on, by the one that it ran on most: work that
// keeps both as busy takes as much less time as the new one can do more.
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

// speedOf is what the accelerators of a machine can do, TFLOPS; 0 is unknown.
func speedOf(machine string) float64 {
	name, digits, ok := strings.Cut(machine, ":")
	count, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil {
		return 0
	}
	return count * accel.TFLOPS(name)
}

// estimate is what a task is planned by.
func estimate(l *dag.Learned, careful bool) dag.TimeEstimate {
	e := dag.TimeEstimate{On: make(map[string]time.Duration, len(l.On))}
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

// Unlearned is a job as its file says it, without what was learned of its tasks when it was submitted: that may be more
// by now.
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

// Kept is what takes the place of a job with the same tasks: those that are no service go on with the run times that
// they were taken in with, where the new file states none, and with what was learned of them. The job that it is given
// is not changed.
func Kept(spec, old *dag.Job) *dag.Job {
	kept := *spec
	kept.Tasks = slices.Clone(spec.Tasks)
	for i := range kept.Tasks {
		t, was := &kept.Tasks[i], old.Tasks[i]
		if t.Service != nil {
			continue
		}
		if t.Learned = was.Learned; t.Time.Default == 0 && len(t.Time.On) == 0 {
			t.Time = was.Time
		} else if was.Learned != nil && was.Learned.Used {
			unused := *was.Learned
			t.Learned, unused.Used = &unused, false
		}
	}
	return &kept
}

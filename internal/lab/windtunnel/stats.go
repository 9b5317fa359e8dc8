package windtunnel

import (
	"time"
)

// stats are the counters of a phase.
type stats struct {
	tasks     int
	waited    float64 // turns, summed
	delays    []int   // number of tasks by turns waited
	score     float64 // summed
	conflicts int
	expected  float64
	used      float64 // share of the slots, summed over turns
	ideal     float64 // summed over turns
	turns     int
}

func (s *stats) placed(waited uint64, score float64) {
	s.tasks++
	s.waited += float64(waited)
	s.score += score
	for uint64(len(s.delays)) <= waited {
		s.delays = append(s.delays, make([]int, len(s.delays)+64)...)
	}
	s.delays[waited]++
}

func (s *stats) conflict() { s.conflicts++ }

// watch records the use of the cluster in this turn.
func (s *stats) watch(k *cluster) {
	s.turns++
	s.used += 1 - float64(k.freeTotal)/float64(len(k.place))
	s.ideal += k.ideal()
}

// add adds the counters of another.
func (s *stats) add(o *stats) {
	s.tasks += o.tasks
	s.waited += o.waited
	s.score += o.score
	s.conflicts += o.conflicts
	s.expected += o.expected
	s.used += o.used
	s.ideal += o.ideal
	s.turns += o.turns
	for len(s.delays) < len(o.delays) {
		s.delays = append(s.delays, 0)
	}
	for i, n := range o.delays {
		s.delays[i] += n
	}
}

// sums are the counters from which points of the series are computed.
type sums struct {
	tasks, conflicts int
	waited, score    float64
}

func (t *tunnel) placedSoFar() (s sums) {
	for _, c := range t.now {
		s.tasks += c.tasks
		s.conflicts += c.conflicts
		s.waited += c.waited
		s.score += c.score
	}
	return s
}

func (s *stats) addDifference(after, before sums) {
	s.tasks += after.tasks - before.tasks
	s.conflicts += after.conflicts - before.conflicts
	s.waited += after.waited - before.waited
	s.score += after.score - before.score
}

func (s *stats) point(at float64, turn time.Duration) Point {
	n := float64(max(s.tasks, 1))
	return Point{At: at, Delay: s.waited / n * turn.Seconds(), Quality: s.score / n, Conflicts: s.conflicts}
}

// phase converts the counters to a report.
func (s *stats) phase(load float64, seconds float64, turn time.Duration, waiting int) Phase {
	n, turns := float64(max(s.tasks, 1)), float64(max(s.turns, 1))
	return Phase{
		Load: load * 100, Tasks: s.tasks, PerSecond: float64(s.tasks) / seconds,
		DelaySeconds: s.waited / n * turn.Seconds(), DelayP99: s.quantile(0.99) * turn.Seconds(),
		Quality: s.score / n, Ideal: s.ideal / turns, Conflicts: s.conflicts, Expected: s.expected,
		PerTask: float64(s.conflicts) / n, Used: s.used / turns, Waiting: waiting,
	}
}

// quantile returns the number of turns that the given share of tasks waited at most.
func (s *stats) quantile(q float64) float64 {
	left := int(q * float64(s.tasks))
	for turns, n := range s.delays {
		if left -= n; left < 0 {
			return float64(turns)
		}
	}
	return 0
}

// report adds the reports of a finished phase.
func (t *tunnel) report(phase int, all *stats) {
	seconds := t.c.Phase.Seconds()
	load, queued := 0.0, 0
	for class, s := range t.now {
		waiting, members := 0, 0
		for _, scheduler := range t.schedulers {
			if scheduler.class == class {
				waiting += scheduler.queued
				members++
			}
		}
		t.phases[class] = append(t.phases[class], s.phase(t.c.Load[class][phase], seconds, t.length, waiting))
		load += t.c.Load[class][phase] * float64(members) / float64(len(t.schedulers))
		queued += waiting
		all.add(s)
	}
	t.all = append(t.all, all.phase(load, seconds, t.length, queued))
	t.total.add(all)
}

func (t *tunnel) result() *Result {
	c := t.c
	load := 0.0
	for _, p := range t.all {
		load += p.Load / 100 / float64(len(t.all))
	}
	seconds := c.Phase.Seconds() * float64(len(t.all))
	r := &Result{
		Policy: c.Policy, Schedulers: c.Schedulers, Partitions: c.Partitions, Slots: c.Slots, Rate: c.Rate,
		GapSeconds: c.Gap.Seconds(),
		Variance:   c.ScoreVariance, Seed: c.Seed, Phases: t.all, Virtual: seconds, Series: t.series,
		Total: t.total.phase(load, seconds, t.length, t.all[len(t.all)-1].Waiting),
	}
	if len(t.phases) > 1 {
		r.Classes = t.phases
	}
	return r
}

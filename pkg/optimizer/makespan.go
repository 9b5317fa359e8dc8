package optimizer

import "slices"

// timeSearch minimises the makespan (equations 2 and 3) with no bound on the
// cost, by branch and bound over the windows.
type timeSearch struct {
	inst  *instance
	meter *meter
	buf   scratch

	best   plan
	upper  float64 // the best plan's makespan
	lower  float64
	enough float64 // a makespan below this will do

	root   *windows
	rooted float64 // the cut that root has been checked against
	openList
}

// solveMakespan returns the fastest plan found and a proven bound on the
// makespan of any; proven tells that the two agree to the precision promised.
// It also stops at a makespan below enough; zero is never enough. Every task of inst must have an option.
func solveMakespan(inst *instance, known []plan, enough float64, th thresholds, m *meter) (best plan, lower float64, proven bool) {
	s := &timeSearch{inst: inst, meter: m, upper: inf, enough: enough}
	if inst.nTask()*inst.nPlace > th.windowEntries {
		s.coarse(known)
		return s.best, s.lower, s.lower >= s.cut()
	}
	s.root = newWindows(inst)
	s.root.propagate(inf, &s.buf, m)
	for _, p := range known {
		s.offer(slices.Clone(p))
	}
	s.attempt(s.root)
	s.rooted = inf
	s.lower = min(s.root.lower(), s.upper)
	s.push(s.lower, nil)
	s.run()
	return s.best, s.lower, s.finished()
}

// coarse does without windows: it improves the plans at hand and that with each
// task at its fastest, and bounds the makespan by the longest path with every
// task and transfer at its fastest.
func (s *timeSearch) coarse(known []plan) {
	hours, transfer := leastTimes(s.inst)
	_, s.lower = s.inst.longestPath(hours, transfer)
	fastest := make(plan, s.inst.nTask())
	for t := range fastest {
		fastest[t] = int32(slices.IndexFunc(s.inst.options(int32(t)), func(o option) bool { return o.hours == hours[t] })) // #nosec G115 -- at most MaxTasks and MaxCandidates
	}
	for _, p := range append([]plan{fastest}, known...) {
		sch := newSchedule(s.inst, slices.Clone(p))
		sch.shorten(s.meter)
		s.offer(sch.plan)
	}
	s.lower = min(s.lower, s.upper)
}

// leastTimes returns the least time of every task and edge.
func leastTimes(inst *instance) (hours, transfer []float64) {
	hours, transfer = make([]float64, inst.nTask()), make([]float64, len(inst.edges))
	for t := range hours {
		hours[t] = inf
		for _, o := range inst.options(int32(t)) { // #nosec G115 -- at most MaxTasks
			hours[t] = min(hours[t], o.hours)
		}
	}
	perGiB := slices.Min(inst.hrs)
	for e := range transfer {
		transfer[e] = perGiB * inst.edges[e].maxGiB
	}
	return hours, transfer
}

func (s *timeSearch) cut() float64 { return cutBelow(s.upper) }

func (s *timeSearch) run() {
	for s.upper >= s.enough && s.goOn(s.upper, s.meter) {
		next, ok := s.pop(s.cut())
		if !ok || !s.pruneRoot() {
			s.open = nil
			break
		}
		if w := s.replay(next.decision); w != nil {
			s.dive(w, next)
		}
	}
	s.lower = min(s.upper, max(s.lower, s.least(s.cut())))
}

// pruneRoot narrows the root's windows to the best plan so far; false means
// that nothing better is left.
func (s *timeSearch) pruneRoot() bool {
	if s.rooted == s.cut() {
		return true
	}
	s.rooted = s.cut()
	s.root.recheck()
	return s.root.propagate(s.rooted, &s.buf, s.meter)
}

// dive follows one branch, always taking the place that promises the least
// makespan for the task on which the paths disagree, and leaves the other places
// open.
func (s *timeSearch) dive(w *windows, at branch) {
	for {
		if !w.propagate(s.cut(), &s.buf, s.meter) {
			return
		}
		if s.meter.stopped {
			s.push(at.bound, at.decision)
			return
		}
		t, improved := s.attempt(w)
		if improved {
			w.recheck()
			continue
		}
		p, other := w.twoFastest(t)
		if other < s.cut() {
			s.push(max(other, at.bound), &decision{before: at.decision, task: t, value: int32(p)}) // #nosec G115 -- at most MaxPlaces
		}
		at.decision = &decision{before: at.decision, task: t, value: int32(p), kind: take} // #nosec G115 -- at most MaxPlaces
		w.take(t, p)
	}
}

// replay applies decisions to a copy of the root; nil is a dead end.
func (s *timeSearch) replay(d *decision) *windows {
	w := s.root.clone()
	for ; d != nil; d = d.before {
		i := int(d.task)*s.inst.nPlace + int(d.value)
		switch {
		case w.quick[i] == inf:
			if d.kind == take {
				return nil
			}
		case d.kind == take:
			w.take(d.task, int(d.value))
		default:
			w.quick[i] = inf
			w.changed(d.task)
		}
	}
	return w
}

// attempt builds a plan from the windows: from the last tasks back, each where
// the path through it is shortest, producers as early as the windows allow and
// consumers as already placed. If the bounds hold together that plan, or one
// near it, beats the best. Otherwise there is a task for which no place will do,
// since paths through it want it at different ones: the first is the conflict.
func (s *timeSearch) attempt(w *windows) (conflict int32, improved bool) {
	p := make(plan, s.inst.nTask())
	sch := &schedule{inst: s.inst, plan: p, start: make([]float64, len(p)), after: make([]float64, len(p))}
	conflict = -1
	before, cut := s.upper, s.cut()
	for _, t := range slices.Backward(s.inst.topo) {
		best, bestVia, bestAfter := int32(-1), inf, 0.0
		for k, o := range s.inst.options(t) {
			i := int(t)*s.inst.nPlace + int(o.place)
			if w.quick[i] < o.hours || w.quick[i] == inf {
				continue // not the fastest of its place, or ruled out
			}
			after := sch.afterAt(t, int(o.place))
			if via := w.start[i] + o.hours + after; via < bestVia {
				best, bestVia, bestAfter = int32(k), via, after // #nosec G115 -- at most MaxCandidates
			}
		}
		p[t], sch.after[t] = best, bestAfter
		if bestVia >= cut && conflict < 0 {
			conflict = t
		}
		s.meter.spend(len(s.inst.options(t)) * (1 + len(s.inst.out.of(t))))
	}
	sch.computeStarts()
	if sch.makespan() >= cut {
		sch.shorten(s.meter)
	}
	s.offer(p)
	return conflict, s.upper < before
}

// offer keeps p if it is the best plan so far.
func (s *timeSearch) offer(p plan) {
	if x := s.inst.makespan(p); x < s.upper {
		s.best, s.upper = p, x
	}
}

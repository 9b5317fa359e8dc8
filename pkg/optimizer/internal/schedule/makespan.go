package schedule

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// timeSearch minimises the makespan (equations 2 and 3) without a budget, by branch and bound over the windows.
type timeSearch struct {
	inst  *problem.Instance
	meter *search.Meter
	buf   network.Scratch

	best   problem.Plan
	upper  float64 // the best plan's makespan
	lower  float64
	enough float64 // a makespan below this is good enough

	root   *windows.Windows
	rooted float64 // the cut for which root was last checked
	search.OpenList
}

// Solve finds the plan of minimum makespan without a budget, by branch and bound over the windows of the tasks on
// which paths disagree. It returns the fastest plan found and a proven lower bound of the makespan. proven reports
// whether the two agree to the promised precision. It also stops at a makespan below enough; zero means never. Every
// task of inst must have an option.
func Solve(
	inst *problem.Instance, known []problem.Plan, enough float64, th search.Thresholds, m *search.Meter,
) (best problem.Plan, lower float64, proven bool) {
	s := &timeSearch{inst: inst, meter: m, upper: search.Inf, enough: enough}
	if inst.NTask()*inst.NPlace > th.WindowEntries {
		s.coarse(known)
		return s.best, s.lower, s.lower >= s.cut()
	}
	s.root = windows.New(inst)
	s.root.Propagate(search.Inf, &s.buf, m)
	for _, p := range known {
		s.offer(slices.Clone(p))
	}
	s.attempt(s.root)
	s.rooted = search.Inf
	s.lower = min(s.root.Lower(), s.upper)
	s.Push(s.lower, nil)
	s.run()
	return s.best, s.lower, s.Finished()
}

// coarse works without windows: it improves the known plans and the plan with each task at its fastest option, and
// bounds the makespan by the longest path with the minimum time of every task and transfer.
func (s *timeSearch) coarse(known []problem.Plan) {
	hours, transfer := leastTimes(s.inst)
	_, s.lower = s.inst.LongestPath(hours, transfer)
	fastest := make(problem.Plan, s.inst.NTask())
	for t := range fastest {
		opts := s.inst.Options(int32(t)) // #nosec G115 -- at most MaxTasks
		k := slices.IndexFunc(opts, func(o problem.Option) bool { return o.Hours == hours[t] })
		fastest[t] = int32(k) // #nosec G115 -- at most MaxCandidates
	}
	for _, p := range append([]problem.Plan{fastest}, known...) {
		sch := New(s.inst, slices.Clone(p))
		sch.Shorten(s.meter)
		s.offer(sch.Plan)
	}
	s.lower = min(s.lower, s.upper)
}

// leastTimes returns the minimum time of every task and edge.
func leastTimes(inst *problem.Instance) (hours, transfer []float64) {
	hours, transfer = make([]float64, inst.NTask()), make([]float64, len(inst.Edges))
	for t := range hours {
		hours[t] = search.Inf
		for _, o := range inst.Options(int32(t)) { // #nosec G115 -- at most MaxTasks
			hours[t] = min(hours[t], o.Hours)
		}
	}
	perGiB := slices.Min(inst.Hrs)
	for e := range transfer {
		transfer[e] = perGiB * inst.Edges[e].MaxGiB
	}
	return hours, transfer
}

func (s *timeSearch) cut() float64 { return search.CutBelow(s.upper) }

func (s *timeSearch) run() {
	for s.upper >= s.enough && s.Continue(s.upper, s.meter) {
		next, ok := s.Pop(s.cut())
		if !ok || !s.pruneRoot() {
			s.Open = nil
			break
		}
		if w := s.replay(next.Decision); w != nil {
			s.dive(w, next)
		}
	}
	s.lower = min(s.upper, max(s.lower, s.Least(s.cut())))
}

// pruneRoot narrows the root's windows to the best plan so far. It returns false if nothing better is left.
func (s *timeSearch) pruneRoot() bool {
	if s.rooted == s.cut() {
		return true
	}
	s.rooted = s.cut()
	s.root.Recheck()
	return s.root.Propagate(s.rooted, &s.buf, s.meter)
}

// dive follows one branch and leaves the other places open. It always takes the place with the lowest bound for the
// task on which the paths disagree.
func (s *timeSearch) dive(w *windows.Windows, at search.Branch) {
	for {
		if !w.Propagate(s.cut(), &s.buf, s.meter) {
			return
		}
		if s.meter.Stopped {
			s.Push(at.Bound, at.Decision)
			return
		}
		t, improved := s.attempt(w)
		if improved {
			w.Recheck()
			continue
		}
		p, other := w.TwoFastest(t)
		place := int32(p) // #nosec G115 -- at most MaxPlaces
		if other < s.cut() {
			s.Push(max(other, at.Bound), &search.Decision{Before: at.Decision, Task: t, Value: place})
		}
		at.Decision = &search.Decision{Before: at.Decision, Task: t, Value: place, Kind: search.Take}
		w.Take(t, p)
	}
}

// replay applies decisions to a copy of the root. It returns nil for a dead end.
func (s *timeSearch) replay(d *search.Decision) *windows.Windows {
	w := s.root.Clone()
	for ; d != nil; d = d.Before {
		i := int(d.Task)*s.inst.NPlace + int(d.Value)
		switch {
		case w.Quick[i] == search.Inf:
			if d.Kind == search.Take {
				return nil
			}
		case d.Kind == search.Take:
			w.Take(d.Task, int(d.Value))
		default:
			w.Quick[i] = search.Inf
			w.Changed(d.Task)
		}
	}
	return w
}

// attempt builds a plan from the windows: from the last tasks back, each at the option with the shortest path through
// it, with producers as early as the windows allow and consumers as already placed. If the bounds are consistent,
// that plan, or one near it, is better than the best. Otherwise there is a task for which no place is good enough,
// because paths through it prefer different places. The first such task is the conflict.
func (s *timeSearch) attempt(w *windows.Windows) (conflict int32, improved bool) {
	p := make(problem.Plan, s.inst.NTask())
	sch := &Schedule{Inst: s.inst, Plan: p, Start: make([]float64, len(p)), After: make([]float64, len(p))}
	conflict = -1
	before, cut := s.upper, s.cut()
	for _, t := range slices.Backward(s.inst.Topo) {
		best, bestVia, bestAfter := int32(0), search.Inf, 0.0
		for k, o := range s.inst.Options(t) {
			i := int(t)*s.inst.NPlace + int(o.Place)
			if w.Quick[i] < o.Hours || w.Quick[i] == search.Inf {
				continue // not the fastest of its place, or ruled out
			}
			after := sch.AfterAt(t, int(o.Place))
			if via := w.Start[i] + o.Hours + after; via < bestVia {
				best, bestVia, bestAfter = int32(k), via, after // #nosec G115 -- at most MaxCandidates
			}
		}
		p[t], sch.After[t] = best, bestAfter
		if bestVia >= cut && conflict < 0 {
			conflict = t
		}
		s.meter.Spend(len(s.inst.Options(t)) * (1 + len(s.inst.Out.Of(t))))
	}
	sch.ComputeStarts()
	if sch.Makespan() >= cut {
		sch.Shorten(s.meter)
	}
	s.offer(p)
	return conflict, s.upper < before
}

// offer stores p if it is the best plan so far.
func (s *timeSearch) offer(p problem.Plan) {
	if x := s.inst.Makespan(p); x < s.upper {
		s.best, s.upper = p, x
	}
}

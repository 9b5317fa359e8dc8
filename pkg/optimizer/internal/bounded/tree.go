package bounded

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Run searches until the optimum is proven or the meter stops it.
func (s *Search) Run() {
	s.begun, s.Probes.work = s.Meter.Work, 0
	for s.step() {
		s.round()
		s.probe()
	}
	s.Lower = min(s.Upper, max(s.Lower, s.Least(s.cut())))
}

// step explores one branch and the most promising path below it. It reports whether there may be more to do.
func (s *Search) step() bool {
	if s.stuck || !s.Continue(s.Upper, s.Meter) || s.Meter.Gap > 0 && s.Lower >= s.Upper-s.Meter.Gap*s.Upper {
		return false
	}
	next, ok := s.Pop(s.cut())
	if !ok {
		return false
	}
	if s.rooted == 0 {
		s.rooted = s.cut()
	}
	if s.rooted != s.cut() {
		s.rooted = s.cut()
		s.root.Windows.Recheck()
		if !s.root.Narrow(s.TimeCut(), &s.buf, s.Meter) {
			s.Open = nil
			return false
		}
	}
	if b := s.replay(next.Decision); b != nil {
		s.dive(b, next)
	}
	return true
}

// dive follows one branch, always to the side of the plan that the lagrangian suggests, and leaves the other side
// open.
func (s *Search) dive(b *windows.Box, at search.Branch) {
	for {
		if !b.Narrow(s.TimeCut(), &s.buf, s.Meter) {
			return
		}
		if b.Single() {
			s.keep(b.Plan())
			return
		}
		bound, open := s.tighten(b, branchRounds())
		if !open {
			return
		}
		at.Bound = max(at.Bound, bound)
		if s.Meter.Stopped {
			s.Push(at.Bound, at.Decision)
			return
		}
		if b.Single() {
			continue
		}
		toward, away := s.choose(b)
		away.Before, toward.Before = at.Decision, at.Decision
		s.Push(at.Bound, &away)
		at.Decision = &toward
		if !b.Apply(&toward) {
			return
		}
	}
}

// replay applies decisions to a copy of the root. It returns nil for a dead end.
func (s *Search) replay(d *search.Decision) *windows.Box {
	b := s.root.Clone()
	for ; d != nil; d = d.Before {
		if !b.Apply(d) {
			return nil
		}
	}
	return b
}

// choose decides how to split b. There are three reasons why the bound is below the cut. If fast and slow options of
// a task are mixed to meet the deadline, it splits that task's options between them. If places do not fit together,
// it splits on the place that costs most above the bound. If a single plan is nearly good enough, it splits on the
// task of its longest path that can be sped up most.
func (s *Search) choose(b *windows.Box) (toward, away search.Decision) {
	const little = 1e-4
	p := s.dual.Round()
	worth, task, split := s.mixedTask(b)
	conflict, conflictTask := s.worstConflict(b)
	if max(worth, conflict) < little*s.slack {
		if t, o := s.criticalTask(b, p); t >= 0 {
			worth, task, split = search.Inf, t, o
		}
	}
	if task < 0 || conflict > worth {
		o := s.aliveOption(b, conflictTask, p)
		return search.Decision{Task: conflictTask, Value: o, Kind: search.Take},
			search.Decision{Task: conflictTask, Value: o, Kind: search.LeaveOut}
	}
	fast := search.Decision{Task: task, Value: split, Kind: search.AtMost}
	slow := search.Decision{Task: task, Value: split, Kind: search.Above}
	if b.Inst.Opts[b.Inst.First[task]+p[task]].Hours > b.Inst.Opts[split].Hours {
		return slow, fast
	}
	return fast, slow
}

// mixedTask returns the task whose average time in the mixture of plans is worth most to decide, the slowest of its
// options on the fast side, and the worth in USD. task is -1 if all plans in the mixture take the same times.
func (s *Search) mixedTask(b *windows.Box) (worth float64, task, split int32) {
	l := s.dual
	hours := s.prices.Average()
	task = -1
	for t := range int32(len(b.Left)) { // #nosec G115 -- at most MaxTasks
		if b.Left[t] == 1 {
			continue
		}
		o, gap := b.SplitAt(t, hours[t])
		if x := l.Lambda * l.Flow.Task[t] * gap; x > worth {
			worth, task, split = x, t, o
		}
	}
	return worth, task, split
}

// criticalTask returns the task on p's longest path that gains most with its fastest remaining option, and the
// slowest of its options that are faster than p's. task is -1 if there is none.
func (s *Search) criticalTask(b *windows.Box, p problem.Plan) (task, split int32) {
	hours, transfer := make([]float64, len(p)), make([]float64, len(s.Inst.Edges))
	for t := range hours {
		hours[t] = s.Inst.Opts[s.Inst.First[t]+p[t]].Hours
	}
	for e := range transfer {
		transfer[e] = s.Inst.TransferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
	longest, _ := s.Inst.LongestPath(hours, transfer)
	task = -1
	most := 0.0
	for _, t := range longest.Tasks {
		fastest, next := search.Inf, int32(-1)
		for o := s.Inst.First[t]; o < s.Inst.First[t+1]; o++ {
			h := s.Inst.Opts[o].Hours
			if !b.Alive[o] || h >= hours[t] {
				continue
			}
			fastest = min(fastest, h)
			if next < 0 || h > s.Inst.Opts[next].Hours {
				next = o
			}
		}
		if hours[t]-fastest > most && s.slower(b, t, s.Inst.Opts[next].Hours) {
			most, task, split = hours[t]-fastest, t, next
		}
	}
	return task, split
}

// slower reports whether t has a remaining option that takes longer than hours.
func (s *Search) slower(b *windows.Box, t int32, hours float64) bool {
	for o := s.Inst.First[t]; o < s.Inst.First[t+1]; o++ {
		if b.Alive[o] && s.Inst.Opts[o].Hours > hours {
			return true
		}
	}
	return false
}

// worstConflict returns the task whose suggested place costs most above the bound, among tasks with several remaining
// options, and by how much.
func (s *Search) worstConflict(b *windows.Box) (excess float64, task int32) {
	n := s.dual.Net
	value, _ := n.Round(&s.dual.Buf)
	excess = -1
	for i := range n.Nodes {
		nd := &n.Nodes[i]
		if b.Left[nd.Task] == 1 {
			continue
		}
		x := nd.Reduced[value[i]]
		for _, e := range nd.Adj {
			p := &n.Pairs[e]
			x += p.At(value[p.U], value[p.V])
		}
		if x > excess {
			excess, task = x, nd.Task
		}
	}
	return excess, task
}

// aliveOption returns t's option in p if it remains, otherwise another remaining one.
func (s *Search) aliveOption(b *windows.Box, t int32, p problem.Plan) int32 {
	o := b.Inst.First[t] + p[t]
	if b.Alive[o] {
		return o
	}
	for o = b.Inst.First[t]; !b.Alive[o]; o++ {
	}
	return o
}

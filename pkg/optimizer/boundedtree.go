package optimizer

// run searches until the optimum is proven or the meter stops it.
func (s *boundedSearch) run() {
	s.begun, s.probes.work = s.meter.work, 0
	for s.step() {
		s.round()
		s.probe()
	}
	s.lower = min(s.upper, max(s.lower, s.least(s.cut())))
}

// step explores one branch and what lies below on the way that looks best, and
// reports whether there may be more to do.
func (s *boundedSearch) step() bool {
	if s.stuck || !s.goOn(s.upper, s.meter) || s.meter.gap > 0 && s.lower >= s.upper-s.meter.gap*s.upper {
		return false
	}
	next, ok := s.pop(s.cut())
	if !ok {
		return false
	}
	if s.rooted == 0 {
		s.rooted = s.cut()
	}
	if s.rooted != s.cut() {
		s.rooted = s.cut()
		s.root.windows.recheck()
		if !s.root.narrow(s.timeCut(), &s.buf, s.meter) {
			s.open = nil
			return false
		}
	}
	if b := s.replay(next.decision); b != nil {
		s.dive(b, next)
	}
	return true
}

// dive follows one branch, always to the side of the plan that the lagrangian
// suggests, and leaves the other side open.
func (s *boundedSearch) dive(b *box, at branch) {
	for {
		if !b.narrow(s.timeCut(), &s.buf, s.meter) {
			return
		}
		if b.single() {
			s.keep(b.plan())
			return
		}
		bound, open := s.tighten(b, branchRounds())
		if !open {
			return
		}
		at.bound = max(at.bound, bound)
		if s.meter.stopped {
			s.push(at.bound, at.decision)
			return
		}
		if b.single() {
			continue
		}
		toward, away := s.choose(b)
		away.before, toward.before = at.decision, at.decision
		s.push(at.bound, &away)
		at.decision = &toward
		if !b.apply(&toward) {
			return
		}
	}
}

// replay applies decisions to a copy of the root; nil is a dead end.
func (s *boundedSearch) replay(d *decision) *box {
	b := s.root.clone()
	for ; d != nil; d = d.before {
		if !b.apply(d) {
			return nil
		}
	}
	return b
}

// choose decides how to part b. The bound falls short of the cut for one of
// three reasons. Plans faster and slower on some task are mixed to meet the
// deadline: part that task's options there. The places do not fit together:
// part on the place that costs most over the bound. Or a single plan is nearly
// good enough: part on the task of its longest path that could be sped up most.
func (s *boundedSearch) choose(b *box) (toward, away decision) {
	const little = 1e-4
	p := s.dual.round()
	worth, task, split := s.mixedTask(b)
	conflict, conflictTask := s.worstConflict(b)
	if max(worth, conflict) < little*s.slack {
		if t, o := s.criticalTask(b, p); t >= 0 {
			worth, task, split = inf, t, o
		}
	}
	if task < 0 || conflict > worth {
		o := s.aliveOption(b, conflictTask, p)
		return decision{task: conflictTask, value: o, kind: take}, decision{task: conflictTask, value: o, kind: leaveOut}
	}
	fast := decision{task: task, value: split, kind: atMost}
	slow := decision{task: task, value: split, kind: above}
	if b.inst.opts[b.inst.first[task]+p[task]].hours > b.inst.opts[split].hours {
		return slow, fast
	}
	return fast, slow
}

// mixedTask returns the task whose average time in the mixture of plans is
// worth most to settle, the slowest of its options on the fast side, and the
// worth in USD; task -1 when the plans mixed take the same time everywhere.
func (s *boundedSearch) mixedTask(b *box) (worth float64, task, split int32) {
	l := s.dual
	hours := s.prices.average()
	task, split = -1, -1
	for t := range int32(len(b.left)) { // #nosec G115 -- at most MaxTasks
		if b.left[t] == 1 {
			continue
		}
		o, gap := b.splitAt(t, hours[t])
		if x := l.lambda * l.flow.task[t] * gap; x > worth {
			worth, task, split = x, t, o
		}
	}
	return worth, task, split
}

// criticalTask returns the task on p's longest path with the most to gain from
// its fastest option left, and the slowest of its options that are faster than
// p's; -1 when none has any.
func (s *boundedSearch) criticalTask(b *box, p plan) (task, split int32) {
	hours, transfer := make([]float64, len(p)), make([]float64, len(s.inst.edges))
	for t := range hours {
		hours[t] = s.inst.opts[s.inst.first[t]+p[t]].hours
	}
	for e := range transfer {
		transfer[e] = s.inst.transferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
	longest, _ := s.inst.longestPath(hours, transfer)
	task, split = -1, -1
	most := 0.0
	for _, t := range longest.tasks {
		fastest, next := inf, int32(-1)
		for o := s.inst.first[t]; o < s.inst.first[t+1]; o++ {
			h := s.inst.opts[o].hours
			if !b.alive[o] || h >= hours[t] {
				continue
			}
			fastest = min(fastest, h)
			if next < 0 || h > s.inst.opts[next].hours {
				next = o
			}
		}
		if next >= 0 && hours[t]-fastest > most && s.slower(b, t, s.inst.opts[next].hours) {
			most, task, split = hours[t]-fastest, t, next
		}
	}
	return task, split
}

// slower tells whether t has an option left that takes longer than hours.
func (s *boundedSearch) slower(b *box, t int32, hours float64) bool {
	for o := s.inst.first[t]; o < s.inst.first[t+1]; o++ {
		if b.alive[o] && s.inst.opts[o].hours > hours {
			return true
		}
	}
	return false
}

// worstConflict returns the task with several options left whose suggested
// place costs most over the bound, and by how much.
func (s *boundedSearch) worstConflict(b *box) (excess float64, task int32) {
	n := s.dual.net
	value, _ := n.round(&s.dual.buf)
	excess = -1
	for i := range n.nodes {
		nd := &n.nodes[i]
		if b.left[nd.task] == 1 {
			continue
		}
		x := nd.reduced[value[i]]
		for _, e := range nd.adj {
			p := &n.pairs[e]
			x += p.at(value[p.u], value[p.v])
		}
		if x > excess {
			excess, task = x, nd.task
		}
	}
	return excess, task
}

// aliveOption is the option of t in p, if it is left, else another one that is.
func (s *boundedSearch) aliveOption(b *box, t int32, p plan) int32 {
	o := b.inst.first[t] + p[t]
	if b.alive[o] {
		return o
	}
	for o = b.inst.first[t]; !b.alive[o]; o++ {
	}
	return o
}

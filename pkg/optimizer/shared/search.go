package shared

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// improve searches from a schedule within a number of steps and returns the best schedule. It accepts worse schedules
// with simulated annealing, and prefers the moves that have led to improvements.
//
// In a relaxed search it stops at the first schedule within the limits.
func (s *searcher) improve(start *schedule, steps int64, stop func() bool) *schedule {
	cur, best, trial := &schedule{}, &schedule{}, &schedule{}
	cur.copyFrom(start)
	best.copyFrom(start)
	begin, end := s.steps, s.steps+steps
	s.setLate(cur)
	order := sorted(nil, cur.start, true)
	for round := 0; s.steps < end && !s.done(best); round++ {
		if round%64 == 0 && stop() {
			break
		}
		done := float64(s.steps-begin) / float64(steps)
		heat := cur.score * firstHeat * math.Pow(lastHeat/firstHeat, done)
		if !s.makespan && !s.relaxed && round%localEvery == 0 {
			s.polish(cur, int64(localEvery*3*s.n), heat)
			s.justify(cur)
			switch s.price(cur); {
			case cur.score < best.score:
				best.copyFrom(cur)
			case math.IsInf(cur.score, 1): // over the budget by a rounding error
				cur.copyFrom(best)
			}
			s.setLate(cur)
			order = sorted(order, cur.start, true)
		}
		s.steps += int64(s.n) / 8
		from := s.steps
		trial.fleet.copyFrom(&cur.fleet)
		move := s.draw()
		if !s.ruin(move, cur, trial) || !s.recreate(trial, order) {
			s.reward(move, 0, s.steps-from)
			continue
		}
		s.compact(trial)
		limit := cur.score - heat*math.Log(1-s.random.Float64())
		s.justifyLate(trial)
		if s.price(trial); trial.score <= limit*1.03 {
			s.justifyEarly(trial)
			s.price(trial)
		}
		if trial.score > limit {
			s.reward(move, 0, s.steps-from)
			continue
		}
		gain := 0.1
		switch {
		case trial.score < best.score*(1-1e-9):
			gain = 10
		case trial.score < cur.score*(1-1e-9):
			gain = 1
		}
		s.reward(move, gain, s.steps-from)
		cur, trial = trial, cur
		s.setLate(cur)
		order = sorted(order, cur.start, true)
		if cur.score < best.score {
			best.copyFrom(cur)
		}
	}
	return best
}

// done reports whether a schedule ends the search.
func (s *searcher) done(best *schedule) bool {
	if s.relaxed {
		return s.within(best)
	}
	return best.score <= s.enough
}

// within reports whether a schedule keeps the limits.
func (b *builder) within(s *schedule) bool { return s.hours <= b.deadline && s.usd <= b.budget }

// localEvery is the number of rounds between two local searches. A local search takes about as many steps as these
// rounds.
const localEvery = 4

// Temperatures of the annealing, as a share of the score.
const (
	firstHeat = 0.05
	lastHeat  = 0.0002
)

// compact removes the instances without tasks.
func (s *searcher) compact(c *schedule) {
	n := int32(0)
	index := make([]int32, len(c.kinds))
	for i := range c.kinds {
		if s.slots[i].last < s.slots[i].first {
			continue
		}
		index[i] = n
		if int(n) != i {
			s.slots[n], s.slots[i] = s.slots[i], s.slots[n]
			c.kinds[n] = c.kinds[i]
		}
		n++
	}
	c.kinds = c.kinds[:n]
	for t := range c.on {
		c.on[t] = index[c.on[t]]
	}
}

// plan sets the windows of the tasks that stay.
func (s *searcher) plan(cur *schedule, f *fleet) {
	s.planned = resized(s.planned, len(f.kinds))
	for i := range s.planned {
		s.planned[i] = window{math.Inf(1), math.Inf(-1)}
	}
	for t, i := range f.on {
		if i != unset {
			w := &s.planned[i]
			w.first, w.last = min(w.first, cur.start[t]), max(w.last, cur.end[t])
		}
	}
}

// The moves of the search.
const (
	nearMove = iota
	instanceMove
	relatedMove
	retypeMove
	mergeMove
	splitMove
	seedMove
	moves
)

// credit is the gain and the time of a move so far, with less weight on the past.
type credit struct{ gain, steps float64 }

func (s *searcher) weight(move int) float64 {
	c := &s.credits[move]
	return 0.02 + (c.gain+1)/(c.steps/float64(s.n)+10)
}

// draw draws a move by the gain that it has had for its steps.
func (s *searcher) draw() int {
	sum := 0.0
	for m := range moves {
		sum += s.weight(m)
	}
	r := s.random.Float64() * sum
	for m := range moves {
		if r -= s.weight(m); r < 0 {
			return m
		}
	}
	return 0
}

func (s *searcher) reward(move int, gain float64, steps int64) {
	c := &s.credits[move]
	c.gain, c.steps = 0.99*c.gain+gain, 0.99*c.steps+float64(steps)
}

// ruin changes a copy of the current fleet: it takes tasks off their instances, or changes instances. It returns
// false if it changed nothing.
func (s *searcher) ruin(move int, cur, trial *schedule) bool {
	s.blink = 0.02
	s.fastest = s.makespan
	if s.relaxed {
		s.fastest = s.random.IntN(2) == 0
	}
	changed := true
	switch move {
	case nearMove:
		s.ruinNear(cur, trial)
	case instanceMove:
		s.ruinInstance(trial)
	case relatedMove:
		s.ruinRelated(trial)
	case retypeMove:
		changed = s.retype(trial)
		if s.random.IntN(2) == 0 {
			s.ruinNear(cur, trial)
		}
	case mergeMove:
		changed = s.merge(trial)
	case splitMove:
		changed = s.split(cur, trial)
	case seedMove:
		s.ruinNear(cur, trial)
		changed = s.seed(trial)
	}
	s.plan(cur, &trial.fleet)
	s.tried = s.tried[:0]
	for range min(len(s.pool), kindsTried) {
		s.tried = append(s.tried, s.pool[s.random.IntN(len(s.pool))])
	}
	return changed
}

// kindsTried is the number of kinds of which one recreate may open new instances.
const kindsTried = 6

// size draws a number of tasks to take off.
func (s *searcher) size() int {
	most := min(s.n, 6+s.n/3, 60)
	return 1 + s.random.IntN(most)
}

// ruinNear takes off tasks that run near one time, on some of the instances.
func (s *searcher) ruinNear(cur, trial *schedule) {
	seed := s.random.IntN(s.n)
	at := (cur.start[seed] + cur.end[seed]) / 2
	near := make([]int32, 0, s.n)
	only := s.random.IntN(2) == 0 && len(trial.kinds) > 2
	a, b := cur.on[seed], int32(s.random.IntN(len(trial.kinds))) // #nosec G115 -- at most MaxTasks
	for t := range int32(s.n) {                                  // #nosec G115 -- at most MaxTasks
		if !only || trial.on[t] == a || trial.on[t] == b {
			near = append(near, t)
		}
	}
	away := func(t int32) float64 { return max(cur.start[t]-at, at-cur.end[t], 0) }
	slices.SortFunc(near, func(x, y int32) int { return cmp.Or(cmp.Compare(away(x), away(y)), cmp.Compare(x, y)) })
	for _, t := range near[:min(len(near), s.size())] {
		trial.on[t] = unset
	}
	trial.on[seed] = unset
}

// ruinInstance takes all tasks off an instance, which is closed.
func (s *searcher) ruinInstance(trial *schedule) {
	s.close(trial, int32(s.random.IntN(len(trial.kinds)))) // #nosec G115 -- at most MaxTasks
}

func (s *searcher) close(trial *schedule, i int32) {
	last := int32(len(trial.kinds)) - 1 // #nosec G115 -- at most MaxTasks
	for t, o := range trial.on {
		switch o {
		case i:
			trial.on[t] = unset
		case last:
			trial.on[t] = i
		}
	}
	trial.kinds[i] = trial.kinds[last]
	trial.kinds = trial.kinds[:last]
}

// ruinRelated takes off a task and others that are reached over edges.
func (s *searcher) ruinRelated(trial *schedule) {
	t := int32(s.random.IntN(s.n)) // #nosec G115 -- at most MaxTasks
	for range s.size() {
		trial.on[t] = unset
		arcs := s.parents.of(t)
		if s.random.IntN(2) == 0 || len(arcs) == 0 {
			arcs = s.children.of(t)
		}
		if len(arcs) == 0 {
			t = int32(s.random.IntN(s.n)) // #nosec G115 -- at most MaxTasks
			continue
		}
		t = arcs[s.random.IntN(len(arcs))].task
	}
}

// drawKind returns a kind of which the fleet may have one more instance, or false.
func (s *searcher) drawKind(f *fleet) (int32, bool) {
	k := s.pool[s.random.IntN(len(s.pool))]
	return k, s.available(f, k)
}

// available reports whether a fleet may have one more instance of a kind.
func (s *searcher) available(f *fleet, k int32) bool {
	count := 0
	for _, o := range f.kinds {
		if o == k {
			count++
		}
	}
	return count < s.kinds[k].most
}

// retype changes the kind of an instance, and takes off the tasks that do not fit.
func (s *searcher) retype(trial *schedule) bool {
	i := int32(s.random.IntN(len(trial.kinds))) // #nosec G115 -- at most MaxTasks
	k, ok := s.drawKind(&trial.fleet)
	if !ok || k == trial.kinds[i] {
		return false
	}
	trial.kinds[i] = k
	for t := range trial.on {
		if trial.on[t] == i && !s.runs(int(k), t) {
			trial.on[t] = unset
		}
	}
	return true
}

// merge moves the tasks of one instance to another, or takes them off if they do not fit.
func (s *searcher) merge(trial *schedule) bool {
	if len(trial.kinds) < 2 {
		return false
	}
	i, j := int32(s.random.IntN(len(trial.kinds))), int32(s.random.IntN(len(trial.kinds))) // #nosec G115 -- small
	if i == j {
		return false
	}
	k := trial.kinds[j]
	for t := range trial.on {
		if trial.on[t] == i && s.runs(int(k), t) {
			trial.on[t] = j
		}
	}
	s.close(trial, i)
	return true
}

// split moves the tasks of an instance that start after a time to a new instance of a kind.
func (s *searcher) split(cur, trial *schedule) bool {
	t := s.random.IntN(s.n)
	i, at := trial.on[t], cur.start[t]
	k := trial.kinds[i]
	if s.random.IntN(2) == 0 {
		k = s.pool[s.random.IntN(len(s.pool))]
	}
	if len(trial.kinds) >= s.most || !s.available(&trial.fleet, k) {
		return false
	}
	j := int32(len(trial.kinds)) // #nosec G115 -- at most MaxTasks
	trial.kinds = append(trial.kinds, k)
	early := s.random.IntN(2) == 0
	for t := range trial.on {
		if trial.on[t] != i || (cur.start[t] < at) != early {
			continue
		}
		if trial.on[t] = j; !s.runs(int(k), t) {
			trial.on[t] = unset
		}
	}
	return true
}

// seed opens an instance without tasks.
func (s *searcher) seed(trial *schedule) bool {
	k, ok := s.drawKind(&trial.fleet)
	if ok = ok && len(trial.kinds) < s.most; ok {
		trial.kinds = append(trial.kinds, k)
	}
	return ok
}

// newSearcher returns a searcher with a fixed sequence of random numbers.
func newSearcher(p *problem) *searcher {
	s := &searcher{builder: newBuilder(p), random: rand.New(rand.NewPCG(1, 2))} // #nosec G404 -- not a secret
	for k := range p.kinds {
		s.pool = append(s.pool, int32(k)) // #nosec G115 -- at most MaxMachines
	}
	return s
}

package shared

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// improve searches from a schedule within a number of steps and returns the best schedule. It accepts worse schedules
// with simulated annealing.
func (s *searcher) improve(start *schedule, steps int64, stop func() bool) *schedule {
	cur, best, trial := &schedule{}, &schedule{}, &schedule{}
	cur.copyFrom(start)
	best.copyFrom(start)
	begin, end := s.steps, s.steps+steps
	s.setLate(cur)
	order := s.orderOf(cur, nil)
	for round := 0; s.steps < end; round++ {
		if round%64 == 0 && stop() {
			break
		}
		s.steps += int64(s.n) / 8
		trial.fleet.copyFrom(&cur.fleet)
		if !s.ruin(cur, trial) || !s.recreate(trial, order) {
			continue
		}
		s.compact(trial)
		s.justify(trial)
		s.price(trial)
		done := float64(s.steps-begin) / float64(steps)
		heat := cur.score * firstHeat * math.Pow(lastHeat/firstHeat, done)
		if trial.score > cur.score-heat*math.Log(1-s.random.Float64()) {
			continue
		}
		cur, trial = trial, cur
		s.setLate(cur)
		order = s.orderOf(cur, order)
		if cur.score < best.score {
			best.copyFrom(cur)
		}
	}
	return best
}

// Temperatures of the annealing, as a share of the score.
const (
	firstHeat = 0.01
	lastHeat  = 0.0001
)

// orderOf returns the tasks by start.
func (s *searcher) orderOf(c *schedule, order []int32) []int32 {
	if order == nil {
		order = make([]int32, s.n)
		for t := range order {
			order[t] = int32(t) // #nosec G115 -- at most MaxTasks
		}
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(c.start[x], c.start[y]), cmp.Compare(x, y))
	})
	return order
}

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

// ruin changes a copy of the current fleet: it takes tasks off their instances, or changes instances. It returns
// false if it changed nothing.
func (s *searcher) ruin(cur, trial *schedule) bool {
	s.blink = 0.02
	changed := true
	switch r := s.random.IntN(100); {
	case r < 40:
		s.ruinNear(cur, trial)
	case r < 55:
		s.ruinInstance(trial)
	case r < 65:
		s.ruinRelated(trial)
	case r < 75:
		changed = s.retype(trial)
	case r < 85:
		changed = s.merge(trial)
	case r < 92:
		changed = s.split(cur, trial)
	default:
		s.ruinNear(cur, trial)
		changed = s.seed(trial)
	}
	s.plan(cur, &trial.fleet)
	return changed
}

// size draws a number of tasks to take off.
func (s *searcher) size() int {
	most := min(s.n, 4+s.n/4, 40)
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
	count := 0
	for _, o := range f.kinds {
		if o == k {
			count++
		}
	}
	return k, count < s.kinds[k].most
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
	ok := true
	if s.random.IntN(2) == 0 {
		k, ok = s.drawKind(&trial.fleet)
	}
	if !ok {
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
	if ok {
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

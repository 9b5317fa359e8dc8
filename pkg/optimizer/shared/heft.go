package shared

import (
	"cmp"
	"math"
	"slices"
)

// ranks returns the tasks in the order of HEFT (Topcuoglu, Hariri, Wu, IEEE TPDS 13, 2002): by the longest path from
// the start of the task to the end of the plan, on machines of kind k that each run one task.
func (p *problem) ranks(k int) []int32 {
	move := p.moveHours[p.kinds[k].place][p.kinds[k].place]
	rank := make([]float64, p.n)
	order := make([]int32, p.n)
	for t := int32(p.n) - 1; t >= 0; t-- { // #nosec G115 -- at most MaxTasks
		order[t] = t
		for _, a := range p.children.of(t) {
			rank[t] = max(rank[t], a.gib*move+rank[a.task])
		}
		rank[t] += p.hours[k][t]
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(a, b)) })
	return order
}

// identical runs all tasks on at most count instances of kind k, each at its earliest end (HEFT). It returns false if
// a task does not fit.
func (b *builder) identical(s *schedule, order []int32, k, count int) bool {
	s.kinds, s.on = s.kinds[:0], resized(s.on, b.n)
	s.start, s.end = resized(s.start, b.n), resized(s.end, b.n)
	for t := range b.n {
		if !b.runs(k, t) {
			return false
		}
		s.on[t] = -1
	}
	count = min(count, b.kinds[k].most, b.most)
	if b.alike {
		b.waves(s, order, k, count)
	} else {
		for _, t := range order {
			b.earliest(s, t, k, count)
		}
	}
	b.price(s)
	return true
}

// waves does the work of earliest for equal tasks. They start in waves; the size of a wave is the number of tasks
// that fit on the instances.
func (b *builder) waves(s *schedule, order []int32, k, count int) {
	holds, hours, each := b.holds[k][0], b.hours[k][0], b.fitting(k)
	for at := max(0, b.kinds[k].boot); len(order) > 0; {
		end := later(at, hours)
		for i := 0; i < count && len(order) > 0; i++ {
			if i == len(s.kinds) {
				b.openOne(s, k)
			}
			n := min(each, len(order))
			for _, t := range order[:n] {
				s.on[t], s.start[t], s.end[t] = int32(i), at, end // #nosec G115 -- at most MaxMachines
			}
			x := &b.slots[i]
			x.line = x.line.add(len(x.line)-1, at, end, holds.times(n))
			x.first, x.last = min(x.first, at), max(x.last, end)
			x.fill(b.kinds[k].room)
			order = order[n:]
			b.steps += 2 * int64(n)
		}
		at = end
	}
}

// fitting returns the number of equal tasks that can run on an instance of kind k at the same time.
func (b *builder) fitting(k int) int {
	each := b.n
	for d, h := range b.holds[k][0] {
		if h > 0 {
			each = min(each, int(b.kinds[k].has[d]/h))
		}
	}
	return max(each, 1)
}

// openOne adds an instance of kind k to a schedule.
func (b *builder) openOne(s *schedule, k int) {
	n := len(s.kinds)
	s.kinds = append(s.kinds, int32(k)) // #nosec G115 -- at most MaxMachines
	if len(b.slots) < len(s.kinds) {
		b.slots = append(b.slots, slot{})
	}
	b.reset(n, int32(k)) // #nosec G115 -- at most MaxMachines
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// earliest gives task t its earliest end among the instances, or on another one while there are fewer than count.
func (b *builder) earliest(s *schedule, t int32, k, count int) {
	has, holds, hours := b.kinds[k].has, b.holds[k][b.class[t]], b.hours[k][t]
	best, bestAt, bestBefore := int32(-1), math.Inf(1), 0
	from := b.remote(&s.fleet, t, k, s.end)
	n := int32(len(s.kinds)) // #nosec G115 -- at most MaxTasks
	for i := range n {
		at := max(from.on(i, b.kinds[k].boot), b.slots[i].full)
		if at >= bestAt {
			continue
		}
		at, before, left := b.slots[i].line.fit(at, hours, holds, has, anywhere)
		if at < bestAt {
			best, bestAt, bestBefore = i, at, before
		}
		b.steps += 1 + (anywhere-int64(left))/scanned
	}
	if at := from.on(n, b.kinds[k].boot); int(n) < count && at < bestAt {
		b.openOne(s, k)
		best, bestAt, bestBefore = n, at, -1
	}
	x := &b.slots[best]
	s.on[t], s.start[t], s.end[t] = best, bestAt, later(bestAt, hours)
	x.line = x.line.add(bestBefore, bestAt, s.end[t], holds)
	x.first, x.last = min(x.first, bestAt), max(x.last, s.end[t])
	x.fill(b.kinds[k].room)
	b.steps++
}

// arrivals has, for one task, the times at which its parents' outputs are at each place. A time is the same on all
// instances of the place, with one exception: the instance of the parent with the latest arrival.
type arrivals struct {
	any      float64
	except   int32
	excepted float64
}

// on is the arrival on an instance that is ready at a time.
func (a *arrivals) on(i int32, ready float64) float64 {
	if i == a.except {
		return max(a.excepted, ready)
	}
	return max(a.any, ready)
}

// remote computes the arrivals for task t at the place of kind k.
func (b *builder) remote(f *fleet, t int32, k int, end []float64) arrivals {
	place := b.kinds[k].place
	a := arrivals{except: -1}
	for _, in := range b.parents.of(t) {
		at := end[in.task]
		if in.gib > 0 {
			at = later(at, in.gib*b.moveHours[b.kinds[f.kinds[f.on[in.task]]].place][place])
		}
		if at > a.any {
			a.any, a.except = at, f.on[in.task]
		}
	}
	for _, in := range b.parents.of(t) {
		i, at := f.on[in.task], end[in.task]
		if i != a.except && in.gib > 0 {
			at = later(at, in.gib*b.moveHours[b.kinds[f.kinds[i]].place][place])
		}
		a.excepted = max(a.excepted, at)
	}
	b.steps += int64(len(b.parents.of(t)) / 8)
	return a
}

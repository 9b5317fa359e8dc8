package shared

import (
	"cmp"
	"math"
	"slices"
)

// fleet is the instances of a plan: their kinds, and the instance of each task.
type fleet struct {
	kinds []int32
	on    []int32
}

func (f *fleet) copyFrom(g *fleet) {
	f.kinds, f.on = append(f.kinds[:0], g.kinds...), append(f.on[:0], g.on...)
}

// schedule is a fleet with the times of its tasks.
type schedule struct {
	fleet
	start, end []float64
	usd, hours float64
	score      float64 // the value that the search minimises; +Inf if a limit is broken
}

func (s *schedule) copyFrom(o *schedule) {
	s.fleet.copyFrom(&o.fleet)
	s.start, s.end = append(s.start[:0], o.start...), append(s.end[:0], o.end...)
	s.usd, s.hours, s.score = o.usd, o.hours, o.score
}

// slot is an instance while a schedule is built.
type slot struct {
	line        timeline
	first, last float64 // the start of its first task and the end of its last
	ready       float64 // the earliest start of a task
	// full is a time before which there is no room for any task, and fullAt its index in the line.
	full   float64
	fullAt int
}

// fill updates the time until which the slot is full. It works only while no task is removed.
func (x *slot) fill(room need) {
	if len(x.line) == 0 || x.line[0].at > x.ready {
		return
	}
	for !x.line[x.fullAt].used.within(room) { // the last point has no load
		x.fullAt++
		x.full = x.line[x.fullAt].at
	}
}

// direction is forwards in time, or backwards: then starts and ends are negative and swapped, and children are
// parents.
type direction struct {
	parents *fan
	move    [][]float64
}

// builder makes schedules. It reuses its memory.
type builder struct {
	*problem
	forwards, backwards direction
	slots               []slot
	byStart, byEnd      []int32
	from, to            []float64 // of tasks backwards
	steps               int64     // tasks placed
	relaxed             bool      // schedules that break limits are scored by how much
}

func newBuilder(p *problem) *builder {
	return &builder{
		problem:   p,
		forwards:  direction{&p.parents, p.moveHours},
		backwards: direction{&p.children, p.moveBack},
		from:      make([]float64, p.n), to: make([]float64, p.n),
	}
}

// open empties the slots of a fleet.
func (b *builder) open(f *fleet) {
	for len(b.slots) < len(f.kinds) {
		b.slots = append(b.slots, slot{})
	}
	for i := range f.kinds {
		b.reset(i, f.kinds[i])
	}
}

func (b *builder) reset(i int, k int32) {
	s := &b.slots[i]
	s.line, s.first, s.last, s.ready = s.line[:0], math.Inf(1), math.Inf(-1), b.kinds[k].boot
	s.full, s.fullAt = math.Inf(-1), 0
}

// put gives task t the earliest time on instance i from `from` on.
func (b *builder) put(f *fleet, t, i int32, from float64, start, end []float64) {
	k := f.kinds[i]
	s := &b.slots[i]
	holds := b.holds[k][b.class[t]]
	hours := b.hours[k][t]
	at, before, left := s.line.fit(max(from, s.full), hours, holds, b.kinds[k].has, anywhere)
	start[t], end[t] = at, later(at, hours)
	s.line = s.line.add(before, at, end[t], holds)
	s.first, s.last = min(s.first, at), max(s.last, end[t])
	s.fill(b.kinds[k].room)
	b.steps += 1 + (anywhere-int64(left))/scanned
}

// arrival returns the time at which the outputs of the parents of t are on instance i.
func (b *builder) arrival(d *direction, f *fleet, t, i int32, end []float64) float64 {
	place := b.kinds[f.kinds[i]].place
	from := b.slots[i].ready
	for _, a := range d.parents.of(t) {
		at := end[a.task]
		if o := f.on[a.task]; o != i && a.gib > 0 {
			at = later(at, a.gib*d.move[b.kinds[f.kinds[o]].place][place])
		}
		from = max(from, at)
	}
	return from
}

// place gives each task its earliest time in an order with parents before children.
func (b *builder) place(d *direction, f *fleet, order []int32, start, end []float64) {
	for _, t := range order {
		i := f.on[t]
		b.put(f, t, i, b.arrival(d, f, t, i, end), start, end)
	}
	b.steps += int64(len(b.links.edges) / 8)
}

// justify moves all tasks of a schedule as late as possible without a later end of any instance, then as early as
// possible without an earlier start of any instance. No instance is needed for longer afterwards, and most for less
// (double justification: Valls, Ballestín, Quintanilla, European Journal of Operational Research 165, 2005).
func (b *builder) justify(s *schedule) {
	b.justifyLate(s)
	b.justifyEarly(s)
}

func (b *builder) justifyLate(s *schedule) {
	b.limit(&s.fleet, func(x *slot) float64 { return -x.last })
	for t := range b.n {
		b.from[t] = -s.end[t]
	}
	b.byEnd = sorted(b.byEnd, b.from, false)
	b.place(&b.backwards, &s.fleet, b.byEnd, b.from, b.to)
	for t := range b.n {
		s.start[t], s.end[t] = -b.to[t], -b.from[t]
	}
	for i := range s.kinds {
		x := &b.slots[i]
		x.first, x.last = -x.last, -x.first
	}
}

func (b *builder) justifyEarly(s *schedule) {
	b.limit(&s.fleet, func(x *slot) float64 { return x.first })
	b.byStart = sorted(b.byStart, s.start, true)
	b.place(&b.forwards, &s.fleet, b.byStart, s.start, s.end)
}

// limit empties the slots of a fleet and sets when they are ready.
func (b *builder) limit(f *fleet, ready func(*slot) float64) {
	for i := range f.kinds {
		r := ready(&b.slots[i])
		b.reset(i, f.kinds[i])
		b.slots[i].ready = r
	}
}

// sorted sorts tasks by a time. Equal ones are in topological order, or in its reverse. It is fast if the order is
// nearly right.
func sorted(order []int32, key []float64, topological bool) []int32 {
	if len(order) < len(key) {
		order = make([]int32, len(key))
		for t := range order {
			order[t] = int32(t) // #nosec G115 -- at most MaxTasks
		}
	}
	moves := 0
	for i := 1; i < len(order); i++ {
		t := order[i]
		k, j := key[t], i
		for ; j > 0; j-- {
			o := order[j-1]
			if key[o] < k || key[o] == k && (o < t) == topological {
				break
			}
			order[j] = o
		}
		order[j] = t
		if moves += i - j; moves > 16*len(order) {
			slices.SortFunc(order, func(x, y int32) int {
				if topological {
					return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(x, y))
				}
				return cmp.Or(cmp.Compare(key[x], key[y]), cmp.Compare(y, x))
			})
			break
		}
	}
	return order
}

// price computes the cost, the end and the score of a schedule from the slots.
func (b *builder) price(s *schedule) {
	s.usd, s.hours = b.rent(&s.fleet), 0
	for i := range s.kinds {
		s.hours = max(s.hours, b.slots[i].last)
	}
	if b.egress {
		s.usd += b.moves(&s.fleet)
	}
	s.score = b.score(s.usd, s.hours)
}

// rent is the cost of the instances that run a task.
func (b *builder) rent(f *fleet) float64 {
	usd := 0.0
	for i, k := range f.kinds {
		if x := &b.slots[i]; x.last >= x.first {
			usd += b.kinds[k].price * b.kinds[k].billed(x.last-x.first+b.kinds[k].boot)
		}
	}
	return usd
}

// moves is the cost of the edges between different instances.
func (b *builder) moves(f *fleet) float64 {
	usd := 0.0
	for i := range b.links.edges {
		e := &b.links.edges[i]
		if from, to := f.on[e.from], f.on[e.to]; from != to {
			usd += e.gib * b.moveUSD[b.kinds[f.kinds[from]].place][b.kinds[f.kinds[to]].place]
		}
	}
	return usd
}

// tie is the weight of the quantity that is not the objective: it decides between equal plans.
const tie = 1e-9

func (b *builder) score(usd, hours float64) float64 {
	if b.relaxed {
		return max(0, hours/b.deadline-1) + max(0, usd/b.budget-1) + tie*usd
	}
	if hours > b.deadline || usd > b.budget {
		return math.Inf(1)
	}
	if b.makespan {
		return hours + tie*usd
	}
	return usd + tie*hours
}

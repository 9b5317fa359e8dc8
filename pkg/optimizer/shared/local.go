package shared

import (
	"math"
	"slices"
)

// local improves a schedule by moving a few tasks between the fixed times of all others, which takes far fewer steps
// than building a schedule (search.go).
type local struct {
	*searcher
	cur   *schedule
	slots []slot    // of cur
	tasks [][]int32 // of each instance
	off   []int32   // the tasks that are moved, in topological order
	isOff []bool
	saved []savedSlot
	was   []savedTask
	heat  float64
}

type savedSlot struct {
	instance    int32
	line        timeline
	first, last float64
	rent        float64
}

type savedTask struct {
	task, on   int32
	start, end float64
}

// polish makes moves for a number of steps. It leaves the schedule compact and priced.
func (s *searcher) polish(cur *schedule, steps int64, heat float64) {
	l := &s.local
	l.searcher, l.cur, l.heat = s, cur, heat
	l.load()
	for end := s.steps + steps; s.steps < end; {
		if l.pick(); len(l.off) > 0 {
			l.try()
		}
	}
	l.unload()
}

// load builds the slots of the schedule.
func (l *local) load() {
	n := len(l.cur.kinds)
	l.grow(n)
	for i := range l.cur.kinds {
		x := &l.slots[i]
		x.line, x.first, x.last = x.line[:0], math.Inf(1), math.Inf(-1)
		l.tasks[i] = l.tasks[i][:0]
	}
	l.byStart = sorted(l.byStart, l.cur.start, true)
	for _, t := range l.byStart {
		l.put(t, l.cur.on[t], l.cur.start[t])
	}
	l.isOff = resized(l.isOff, l.n)
	clear(l.isOff)
	l.countKinds(&l.cur.fleet)
	l.steps += int64(l.n)
}

// grow makes room for n instances.
func (l *local) grow(n int) {
	for len(l.slots) < n {
		l.slots = append(l.slots, slot{})
	}
	for len(l.tasks) < n {
		l.tasks = append(l.tasks, nil)
	}
}

// put runs task t on instance i from a time at which there is room.
func (l *local) put(t, i int32, from float64) {
	k := l.cur.kinds[i]
	x := &l.slots[i]
	to := later(from, l.hours[k][t])
	x.line = x.line.add(x.line.before(from), from, to, l.holds[k][l.class[t]])
	x.first, x.last = min(x.first, from), max(x.last, to)
	l.tasks[i] = append(l.tasks[i], t)
	l.cur.on[t], l.cur.start[t], l.cur.end[t] = i, from, to
}

// unload prices the schedule and removes empty instances.
func (l *local) unload() {
	c := l.cur
	l.builder.slots, l.slots = l.slots, l.builder.slots
	l.compact(c)
	l.price(c)
}

// pick chooses the tasks to move.
func (l *local) pick() {
	l.off = l.off[:0]
	t := int32(l.random.IntN(l.n)) // #nosec G115 -- at most MaxTasks
	i := l.cur.on[t]
	switch r := l.random.IntN(10); {
	case r < 2:
		l.pickEdge(i, func(t int32) float64 { return -l.cur.end[t] })
	case r < 4:
		l.pickEdge(i, func(t int32) float64 { return l.cur.start[t] })
	case r < 5 && len(l.tasks[i]) <= 40:
		for _, t := range l.tasks[i] {
			l.take(t)
		}
	case r < 7:
		l.pickWalk(t)
	default:
		l.pickNear(t)
	}
	slices.Sort(l.off)
}

func (l *local) take(t int32) {
	if !l.isOff[t] {
		l.isOff[t] = true
		l.off = append(l.off, t)
	}
}

// pickEdge takes the few tasks of an instance with the least keys.
func (l *local) pickEdge(i int32, key func(int32) float64) {
	for range 1 + l.random.IntN(6) {
		best, least := int32(unset), math.Inf(1)
		for _, t := range l.tasks[i] {
			if k := key(t); k < least && !l.isOff[t] {
				best, least = t, k
			}
		}
		if best == unset {
			return
		}
		l.take(best)
	}
	l.steps += int64(len(l.tasks[i]) / 8)
}

// pickWalk takes tasks along edges.
func (l *local) pickWalk(t int32) {
	for range 1 + l.random.IntN(8) {
		l.take(t)
		arcs := l.children.of(t)
		if l.random.IntN(2) == 0 || len(arcs) == 0 {
			arcs = l.parents.of(t)
		}
		if len(arcs) == 0 {
			return
		}
		t = arcs[l.random.IntN(len(arcs))].task
	}
}

// pickNear takes tasks of one or two instances that run near the time of a task.
func (l *local) pickNear(t int32) {
	at := (l.cur.start[t] + l.cur.end[t]) / 2
	i, j := l.cur.on[t], l.cur.on[l.random.IntN(l.n)]
	width := (l.cur.end[t] - l.cur.start[t]) * (0.5 + l.random.Float64()*2)
	for _, i := range []int32{i, j} {
		for _, o := range l.tasks[i] {
			if l.cur.start[o] <= at+width && l.cur.end[o] >= at-width && len(l.off) < 20 {
				l.take(o)
			}
		}
		l.steps += int64(len(l.tasks[i]) / 8)
		if l.random.IntN(2) == 0 {
			break
		}
	}
	l.take(t)
}

// try moves the tasks that are off to the places where they cost least, and undoes it if the schedule is then worse
// than the annealing accepts.
func (l *local) try() {
	l.saved, l.was = l.saved[:0], l.was[:0]
	before := l.movesOff()
	for _, t := range l.off {
		l.was = append(l.was, savedTask{t, l.cur.on[t], l.cur.start[t], l.cur.end[t]})
		l.save(l.cur.on[t])
	}
	for _, t := range l.off {
		l.remove(t)
	}
	l.shrink()
	ok := true
	for _, t := range l.off {
		if ok = l.insert(t); !ok {
			break
		}
	}
	gain := 0.0
	if ok {
		for i := range l.saved {
			gain += l.saved[i].rent - l.rentOf(l.saved[i].instance)
		}
		gain += before - l.movesOff()
	}
	if ok && gain >= l.heat*math.Log(1-l.random.Float64()) && l.cur.usd-gain <= l.budget {
		l.cur.usd -= gain
	} else {
		l.undo()
	}
	for _, t := range l.off {
		l.isOff[t] = false
	}
	l.steps += int64(len(l.off))
}

func (l *local) save(i int32) {
	for j := range l.saved {
		if l.saved[j].instance == i {
			return
		}
	}
	x := &l.slots[i]
	n := len(l.saved)
	if n < cap(l.saved) {
		l.saved = l.saved[:n+1]
	} else {
		l.saved = append(l.saved, savedSlot{})
	}
	o := &l.saved[n]
	o.instance, o.line, o.first, o.last, o.rent = i, append(o.line[:0], x.line...), x.first, x.last, l.rentOf(i)
	l.steps += int64(len(x.line) / 32)
}

func (l *local) rentOf(i int32) float64 {
	k, x := &l.kinds[l.cur.kinds[i]], &l.slots[i]
	if x.last < x.first {
		return 0
	}
	return k.price * k.billed(x.last-x.first+k.boot)
}

// movesOff is the cost of moving data to and from the tasks that are off.
func (l *local) movesOff() float64 {
	if !l.egress {
		return 0
	}
	usd := 0.0
	pay := func(gib float64, from, to int32) {
		if from != to {
			usd += gib * l.moveUSD[l.kinds[l.cur.kinds[from]].place][l.kinds[l.cur.kinds[to]].place]
		}
	}
	for _, t := range l.off {
		for _, a := range l.parents.of(t) {
			pay(a.gib, l.cur.on[a.task], l.cur.on[t])
		}
		for _, a := range l.children.of(t) {
			if !l.isOff[a.task] {
				pay(a.gib, l.cur.on[t], l.cur.on[a.task])
			}
		}
	}
	return usd
}

func (l *local) remove(t int32) {
	i := l.cur.on[t]
	holds := l.holds[l.cur.kinds[i]][l.class[t]]
	x := &l.slots[i]
	x.line = x.line.remove(l.cur.start[t], l.cur.end[t], holds)
	all := l.tasks[i]
	j := slices.Index(all, t)
	all[j] = all[len(all)-1]
	l.tasks[i] = all[:len(all)-1]
	l.cur.on[t] = unset
}

// shrink recomputes the first start and the last end on the instances from which tasks were removed.
func (l *local) shrink() {
	for j := range l.saved {
		i := l.saved[j].instance
		x := &l.slots[i]
		x.first, x.last = math.Inf(1), math.Inf(-1)
		for _, t := range l.tasks[i] {
			x.first, x.last = min(x.first, l.cur.start[t]), max(x.last, l.cur.end[t])
		}
		l.steps += int64(len(l.tasks[i]) / 16)
	}
}

// insert gives task t the place where it costs least, before its children that are not off.
func (l *local) insert(t int32) bool {
	c := l.cur
	l.forget()
	best := localOffer{offer: offer{kind: unset}}
	n := len(c.kinds)
	step, at := 1, 0
	const many = 32
	if n > many {
		step, at = n/many, l.random.IntN(n)
	}
	for range min(n, (n+step-1)/step) {
		if at >= n {
			at -= n
		}
		l.consider(t, int32(at), &best) // #nosec G115 -- at most MaxTasks
		at += step
	}
	if n > many {
		for _, a := range l.parents.of(t) {
			l.consider(t, c.on[a.task], &best)
		}
		for _, w := range l.was {
			l.consider(t, w.on, &best)
		}
	}
	for range 3 {
		l.considerNew(t, l.pool[l.random.IntN(len(l.pool))], &best)
	}
	if best.kind == unset {
		return false
	}
	if best.instance == unset {
		best.instance = l.open(best.kind)
	}
	l.save(best.instance)
	l.put(t, best.instance, best.start)
	return true
}

type localOffer struct {
	offer
	start float64
}

// open adds an empty instance, or finds one.
func (l *local) open(k int32) int32 {
	for i, o := range l.cur.kinds {
		if o == k && l.slots[i].last < l.slots[i].first {
			return int32(i) // #nosec G115 -- at most MaxTasks
		}
	}
	i := len(l.cur.kinds)
	l.cur.kinds = append(l.cur.kinds, k)
	l.grow(i + 1)
	x := &l.slots[i]
	x.line, x.first, x.last = x.line[:0], math.Inf(1), math.Inf(-1)
	l.tasks[i] = l.tasks[i][:0]
	l.count[k]++
	return int32(i) // #nosec G115 -- at most MaxTasks
}

// latest is the latest end of task t on instance i of a place: before its children, and the deadline.
func (l *local) latest(t, i, place int32) float64 {
	late := l.deadline - l.tail[t]
	for _, a := range l.children.of(t) {
		if l.isOff[a.task] && l.cur.on[a.task] == unset {
			continue
		}
		at := l.cur.start[a.task]
		if o := l.cur.on[a.task]; o != i && a.gib > 0 {
			at -= a.gib * l.moveHours[place][l.kinds[l.cur.kinds[o]].place] * (1 + 1e-12)
		}
		late = min(late, at)
	}
	return late
}

func (l *local) consider(t, i int32, best *localOffer) {
	c := l.cur
	k := c.kinds[i]
	x := &l.slots[i]
	if x.last < x.first || !l.runs(int(k), int(t)) {
		return
	}
	kind := &l.kinds[k]
	from := l.arrivals(c, t, k).on(i, kind.boot)
	hours := l.hours[k][t]
	if from+hours > l.deadline {
		return
	}
	late := l.latest(t, i, kind.place)
	holds := l.holds[k][l.class[t]]
	moves := l.movesOf(c, t, i, k)
	rent := kind.price * kind.billed(x.last-x.first+kind.boot)
	for range 2 {
		const far = 40
		at, _, left := x.line.fit(from, hours, holds, kind.has, far)
		l.steps += 1 + int64(far-left)/scanned
		if left < 0 {
			return
		}
		end := later(at, hours)
		if end > late {
			return
		}
		usd := kind.price*kind.billed(max(x.last, end)-min(x.first, at)+kind.boot) - rent + moves
		l.keep(best, localOffer{offer{i, k, usd, end}, at})
		if at >= x.first {
			return
		}
		from = x.first // rather than to rent the instance earlier
	}
}

func (l *local) keep(best *localOffer, o localOffer) {
	if best.kind == unset || o.usd < best.usd || o.usd == best.usd && o.end < best.end {
		*best = o
	}
}

func (l *local) considerNew(t, k int32, best *localOffer) {
	if !l.runs(int(k), int(t)) || l.count[k] >= l.kinds[k].most || len(l.cur.kinds) >= l.most {
		return
	}
	kind := &l.kinds[k]
	hours := l.hours[k][t]
	at := l.arrivals(l.cur, t, k).on(unset-1, kind.boot)
	end := later(at, hours)
	if end > l.latest(t, unset-1, kind.place) {
		return
	}
	usd := kind.price*kind.billed(hours+kind.boot) + l.movesOf(l.cur, t, unset-1, k)
	l.keep(best, localOffer{offer{unset, k, usd, end}, at})
}

// undo restores the instances and the tasks.
func (l *local) undo() {
	for j := range l.saved {
		o := &l.saved[j]
		x := &l.slots[o.instance]
		x.line, o.line = o.line, x.line
		x.first, x.last = o.first, o.last
	}
	for _, w := range l.was {
		if i := l.cur.on[w.task]; i != unset {
			all := l.tasks[i]
			j := slices.Index(all, w.task)
			all[j] = all[len(all)-1]
			l.tasks[i] = all[:len(all)-1]
		}
	}
	for _, w := range l.was {
		l.cur.on[w.task], l.cur.start[w.task], l.cur.end[w.task] = w.on, w.start, w.end
		l.tasks[w.on] = append(l.tasks[w.on], w.task)
	}
}

// remove takes a load off.
func (l timeline) remove(from, to float64, holds need) timeline {
	if to <= from {
		return l
	}
	l = l.add(l.before(from), from, to, need{-holds[0], -holds[1], -holds[2]})
	return l.join(to).join(from)
}

// join removes the point at a time if the load does not change there.
func (l timeline) join(at float64) timeline {
	i := l.before(at)
	used := need{}
	if i > 0 {
		used = l[i-1].used
	}
	if i >= 0 && l[i].at == at && l[i].used == used {
		return append(l[:i], l[i+1:]...)
	}
	return l
}

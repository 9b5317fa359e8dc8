package shared

import "math"

// finish builds the plan of a schedule in the arithmetic of a strict reader: starts are not before arrivals, ends not
// before start plus hours, and billed times not just above a multiple of the increment. Times move later only by
// rounding errors. It returns false if the plan then breaks a limit.
func (b *builder) finish(s *schedule) (*Plan, bool) {
	b.open(&s.fleet)
	b.byStart = sorted(b.byStart, s.start, true)
	start, end := make([]float64, b.n), make([]float64, b.n)
	for _, t := range b.byStart {
		i := s.on[t]
		b.put(&s.fleet, t, i, max(b.arrival(&b.forwards, &s.fleet, t, i, end), s.start[t]), start, end)
	}
	p := &Plan{Tasks: make([]Run, b.n)}
	index := make([]int, len(s.kinds))
	for i, k := range s.kinds {
		x := &b.slots[i]
		if x.last < x.first {
			continue
		}
		index[i] = len(p.Instances)
		from, to, usd := b.kinds[k].rental(x.first, x.last)
		p.Instances = append(p.Instances, Instance{Machine: b.kinds[k].machine, From: from, To: to})
		p.USD += usd
		p.Hours = max(p.Hours, x.last)
	}
	p.USD += b.moves(&s.fleet)
	for t := range b.n {
		p.Tasks[b.links.order[t]] = Run{On: index[s.on[t]], From: start[t], To: end[t]}
	}
	return p, p.Hours <= b.deadline && p.USD <= b.budget
}

// rental is the time for which an instance is rented to run tasks between two times, and its cost.
func (k *kind) rental(first, last float64) (from, to, usd float64) {
	from = max(first-k.boot, 0)
	for from > 0 && (from+k.boot > first || first-from < k.boot) {
		from = max(math.Nextafter(from, math.Inf(-1)), 0)
	}
	billed := max(k.minimum, last-from)
	if k.advance == 0 {
		return from, last, k.price * billed
	}
	// Just above a multiple of the increment, one reader may round up and another down. Half an increment more is
	// clear, and costs no more than rounding up.
	number := billed / k.advance
	whole := math.Floor(number)
	if over := number - whole; over > 0 && over < 1e-6 {
		last = max(last, from+(whole+0.5)*k.advance)
		number = max(k.minimum, last-from) / k.advance
	}
	return from, last, k.price * math.Ceil(number) * k.advance
}

package shared

import (
	"cmp"
	"math"
	"slices"
)

// guess estimates the cost of running all tasks on a number of identical instances of one machine.
type guess struct {
	machine, count int
	usd            float64
}

// demand sums up the needs of the tasks, to compare machines before anything is scheduled.
type demand struct {
	work     float64    // hours, at speed 1
	held     [3]float64 // CPU, memory and GPU hours
	deadline float64
	makespan bool
	tasks    int
	most     int // instances
	// ends[i] is the end of a list schedule in which widths[i] tasks run at the same time, at speed 1.
	widths []int
	ends   []float64
}

func (p *problem) demand() demand {
	d := demand{deadline: p.deadline, makespan: p.makespan, tasks: p.n, most: min(p.n, p.most)}
	for t := range p.n {
		of := p.task(t)
		d.work += of.Hours
		for i, x := range [3]float64{of.CPUs, of.MemoryGiB, of.GPUs} {
			d.held[i] += x * of.Hours
		}
	}
	order := p.byPath()
	d.widths = counts(p.n)
	for i, width := range d.widths {
		d.ends = append(d.ends, p.listEnd(order, width))
		if i > 0 && d.ends[i] == d.ends[i-1] && width > 4 {
			d.widths = d.widths[:i+1]
			break
		}
	}
	return d
}

// byPath returns the tasks by the longest path from their start to the end, at speed 1.
func (p *problem) byPath() []int32 {
	path := make([]float64, p.n)
	for t := int32(p.n) - 1; t >= 0; t-- { // #nosec G115 -- at most MaxTasks
		for _, a := range p.children.of(t) {
			path[t] = max(path[t], path[a.task])
		}
		path[t] += p.task(int(t)).Hours
	}
	for t := range path {
		path[t] = -path[t]
	}
	return sorted(nil, path, true)
}

// listEnd is the end of a list schedule at speed 1 without moves: whenever one of width slots is free, the open task
// that comes first in the order starts.
func (p *problem) listEnd(order []int32, width int) float64 {
	if p.alike {
		end := 0.0
		for done := 0; done < p.n; done += width {
			end += p.task(0).Hours
		}
		return end
	}
	rank := make([]int32, p.n)
	waits := make([]int32, p.n)
	var open, running heap
	for i, t := range order {
		rank[t] = int32(i)                                         // #nosec G115 -- at most MaxTasks
		if waits[t] = int32(len(p.parents.of(t))); waits[t] == 0 { // #nosec G115 -- at most MaxEdges
			open.push(entry{float64(i), t})
		}
	}
	now := 0.0
	for len(open) > 0 || len(running) > 0 {
		for len(open) > 0 && len(running) < width {
			t := open.pop().task
			running.push(entry{now + p.task(int(t)).Hours, t})
		}
		done := running.pop()
		now = done.key
		for _, a := range p.children.of(done.task) {
			if waits[a.task]--; waits[a.task] == 0 {
				open.push(entry{float64(rank[a.task]), a.task})
			}
		}
	}
	return now
}

type entry struct {
	key  float64
	task int32
}

func (e entry) less(o entry) bool { return e.key < o.key || e.key == o.key && e.task < o.task }

// heap has the entry with the least key first.
type heap []entry

func (h *heap) push(e entry) {
	*h = append(*h, e)
	a := *h
	i := len(a) - 1
	for ; i > 0 && e.less(a[(i-1)/2]); i = (i - 1) / 2 {
		a[i] = a[(i-1)/2]
	}
	a[i] = e
}

func (h *heap) pop() entry {
	a := *h
	top, e := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	i := 0
	for 2*i+1 < len(a) {
		c := 2*i + 1
		if c+1 < len(a) && a[c+1].less(a[c]) {
			c++
		}
		if !a[c].less(e) {
			break
		}
		a[i] = a[c]
		i = c
	}
	if len(a) > 0 {
		a[i] = e
	}
	return top
}

// end interpolates the end of a list schedule of some width, at speed 1.
func (d *demand) end(width float64) float64 {
	i, _ := slices.BinarySearchFunc(d.widths, width, func(w int, x float64) int { return cmp.Compare(float64(w), x) })
	switch {
	case i == 0:
		return d.ends[0]
	case i >= len(d.widths):
		return d.ends[len(d.ends)-1]
	}
	low, high := float64(d.widths[i-1]), float64(d.widths[i])
	part := (1/low - 1/width) / (1/low - 1/high) // ends are about work/width + path
	return d.ends[i-1] + part*(d.ends[i]-d.ends[i-1])
}

// slots returns the average number of tasks that a machine can run at the same time.
func (d *demand) slots(m *Machine) float64 {
	share := 0.0
	for i, has := range [3]float64{m.CPUs, m.MemoryGiB, m.GPUs} {
		if d.held[i] > 0 && d.work > 0 {
			share = max(share, d.held[i]/d.work/has)
		}
	}
	if share == 0 {
		return float64(max(d.tasks, 1))
	}
	return max(1, math.Floor(1/share*(1+1e-9)))
}

// counts are the numbers of instances that are tried: all small ones, then some larger ones.
func counts(most int) []int {
	var c []int
	for n := 1; n < most; n += max(1, n/6) {
		c = append(c, n)
	}
	return append(c, max(most, 1))
}

// guesses estimates the costs on each number of instances of a machine, as far as they are needed.
func (d *demand) guesses(i int, m *Machine, add func(guess)) {
	slots := d.slots(m)
	k := kind{price: m.USDPerHour, minimum: m.MinimumHours, advance: m.IncrementHours}
	for _, n := range counts(min(m.Most, d.most)) {
		width := slots * float64(n)
		end := m.BootHours + d.end(width)/m.Speed
		// Not all instances are needed all the time.
		rent := (k.billed(end) + k.billed(m.BootHours+d.work/width/m.Speed)) / 2
		if usd := float64(n) * k.price * rent; d.makespan {
			add(guess{i, n, end + tie*usd})
		} else if end <= d.deadline*1.02 {
			add(guess{i, n, usd})
		}
		if width >= float64(d.widths[len(d.widths)-1]) {
			return
		}
	}
}

// Sizes of the choice of machines.
const (
	poolSize   = 48 // machines
	poolPlaces = 3
)

// choose returns the machines for the search: the best by the estimate, the best of each size and of the fast ones,
// and for each class of tasks the best that fit. If moves take time or money, it chooses in the best places. The
// guesses are of these machines, best first.
func (p *problem) choose(from []int) ([]int, []guess) {
	d := p.demand()
	var guesses []guess
	for _, i := range from {
		d.guesses(i, &p.model.Machines[i], func(g guess) { guesses = append(guesses, g) })
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return cmp.Compare(a.usd, b.usd) })
	if len(from) <= poolSize {
		return from, guesses
	}
	c := choice{problem: p, taken: map[int]bool{}}
	for _, g := range guesses {
		if c.take(g.machine); len(c.chosen) >= poolSize/2 {
			break
		}
	}
	c.bySize(&d, from)
	c.byClass(from)
	if p.movesMatter() {
		for _, place := range bestPlaces(p.model, guesses) {
			var here []int
			for _, i := range from {
				if p.model.Machines[i].Place == place {
					here = append(here, i)
				}
			}
			c.bySize(&d, here)
			c.byClass(here)
		}
	}
	return c.chosen, slices.DeleteFunc(guesses, func(g guess) bool { return !c.taken[g.machine] })
}

func (p *problem) movesMatter() bool {
	gib := 0.0
	for i := range p.links.edges {
		gib += p.links.edges[i].gib
	}
	return gib > 0 && len(p.model.Places) > 1
}

func bestPlaces(m *Model, guesses []guess) []int {
	var places []int
	for _, g := range guesses {
		if at := m.Machines[g.machine].Place; !slices.Contains(places, at) && len(places) < poolPlaces {
			places = append(places, at)
		}
	}
	return places
}

// choice collects machines.
type choice struct {
	*problem
	taken  map[int]bool
	chosen []int
}

func (c *choice) take(i int) {
	if !c.taken[i] {
		c.taken[i] = true
		c.chosen = append(c.chosen, i)
	}
}

// takeBest takes the machine with the least value.
func (c *choice) takeBest(from []int, value func(*Machine) float64) {
	best, least := -1, math.Inf(1)
	for _, i := range from {
		if v := value(&c.model.Machines[i]); v < least {
			best, least = i, v
		}
	}
	if best >= 0 {
		c.take(best)
	}
}

// bySize takes, for each size and least speed, the machine with the cheapest work.
func (c *choice) bySize(d *demand, from []int) {
	fastest := 0.0
	for _, i := range from {
		fastest = max(fastest, c.model.Machines[i].Speed)
	}
	for _, part := range [...]float64{0, 0.6, 0.75, 0.9, 1} {
		for size := 1.0; size <= 64; size *= 2 {
			c.takeBest(from, func(m *Machine) float64 {
				n := d.slots(m)
				if m.Speed < part*fastest || n < size || n >= 2*size {
					return math.Inf(1)
				}
				return m.USDPerHour / m.Speed / n
			})
		}
	}
	c.takeBest(from, func(m *Machine) float64 { return m.USDPerHour * max(m.MinimumHours, m.BootHours) })
	c.takeBest(from, func(m *Machine) float64 { return m.BootHours })
}

// byClass takes for each class of tasks, at most maxClasses of them, the cheapest machine that fits, the one with the
// cheapest work, and the fastest.
func (c *choice) byClass(from []int) {
	const maxClasses = 12
	for i, t := range c.classes {
		if i == maxClasses {
			return
		}
		for _, value := range []func(*Machine) float64{
			func(m *Machine) float64 { return m.USDPerHour },
			func(m *Machine) float64 {
				share := max(t.CPUs/m.CPUs, t.MemoryGiB/m.MemoryGiB)
				if t.GPUs > 0 {
					share = max(share, t.GPUs/m.GPUs)
				}
				return m.USDPerHour / m.Speed * share
			},
			func(m *Machine) float64 { return -m.Speed },
		} {
			c.takeBest(from, func(m *Machine) float64 {
				if !fits(t, m) {
					return math.Inf(1)
				}
				return value(m)
			})
		}
	}
}

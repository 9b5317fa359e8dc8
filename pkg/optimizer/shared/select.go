package shared

import (
	"cmp"
	"math"
	"slices"
)

// guess estimates the cost of running all tasks on identical instances of one machine.
type guess struct {
	machine int
	usd     float64
}

// demand sums up what the tasks need, to compare machines before anything is scheduled.
type demand struct {
	work     float64    // hours, at speed 1
	held     [3]float64 // CPU, memory and GPU hours
	longest  float64    // hours of the longest path
	deadline float64
	tasks    int
}

func (p *problem) demand() demand {
	d := demand{deadline: p.deadline, tasks: p.n}
	path := make([]float64, p.n)
	for t := range p.n {
		of := p.task(t)
		d.work += of.Hours
		for i, x := range [3]float64{of.CPUs, of.MemoryGiB, of.GPUs} {
			d.held[i] += x * of.Hours
		}
		for _, a := range p.parents.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			path[t] = max(path[t], path[a.task])
		}
		path[t] += of.Hours
		d.longest = max(d.longest, path[t])
	}
	return d
}

// slots is how many tasks a machine runs at the same time, on average.
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
	return max(1, 1/share)
}

// counts are the numbers of instances that are tried: all small ones, then some larger ones.
func counts(most int) []int {
	var c []int
	for n := 1; n < most; n += max(1, n/3) {
		c = append(c, n)
	}
	return append(c, max(most, 1))
}

// guess returns the least estimate over the number of instances.
func (d *demand) guess(i int, m *Machine) guess {
	g := guess{i, math.Inf(1)}
	slots := d.slots(m)
	k := kind{price: m.USDPerHour, minimum: m.MinimumHours, advance: m.IncrementHours}
	for _, n := range counts(min(m.Most, d.tasks)) {
		width := slots * float64(n)
		run := max(d.longest, d.work/width+d.longest*(1-1/max(1, width))/2) / m.Speed
		if m.BootHours+run > d.deadline {
			continue
		}
		g.usd = min(g.usd, float64(n)*k.price*k.billed(m.BootHours+run))
		if width*d.longest > d.work*2 {
			break
		}
	}
	return g
}

// Sizes of the choice of machines.
const (
	poolSize   = 48 // machines
	poolPlaces = 3
)

// choose returns the machines for the search: the best by the estimate, the best of each size and of the fast ones,
// and for each class of tasks the best that fit. If moves take time or money, it chooses in the best places.
func (p *problem) choose(from []int) []int {
	if len(from) <= poolSize {
		return from
	}
	d := p.demand()
	guesses := make([]guess, len(from))
	for j, i := range from {
		guesses[j] = d.guess(i, &p.model.Machines[i])
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return cmp.Compare(a.usd, b.usd) })
	c := choice{problem: p, taken: map[int]bool{}}
	for _, g := range guesses[:16] {
		c.take(g.machine)
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
	return c.chosen
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

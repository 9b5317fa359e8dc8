package shared

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// unit is the number of steps in which one vCPU, GiB or GPU is counted. A task's resources are rounded up and a
// machine's capacity is rounded down, so a sum of tasks that fits in steps also fits in any order of adding floats.
const unit = 1 << 10

// need is the resources of a task, or the capacity of a machine, in steps.
type need [3]int32

func (a need) within(b need) bool { return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2] }

func (a need) times(n int) need {
	return need{a[0] * int32(n), a[1] * int32(n), a[2] * int32(n)} // #nosec G115 -- at most the capacity of a machine
}

// kind is a machine that the search may buy.
type kind struct {
	machine          int // index in the model
	place            int32
	price            float64 // USD per hour
	boot             float64 // hours
	minimum, advance float64 // hours billed at least, and the increment
	speed            float64
	has              need
	room             need // the amount that the smallest task needs; with less, no task fits
	most             int
}

// billed returns the hours billed for a time. A time that exceeds an increment by a rounding error counts as within
// it; finish gives the exact figure.
func (k *kind) billed(span float64) float64 {
	span = max(span, k.minimum)
	if k.advance > 0 {
		return math.Ceil(span/k.advance-1e-9) * k.advance
	}
	return span
}

// problem is a model by index. Tasks are numbered in a topological order.
type problem struct {
	model    *Model
	links    *links
	makespan bool    // the objective
	deadline float64 // hours, or +Inf
	budget   float64 // USD, or +Inf
	most     int     // instances of all kinds together
	n        int
	parents  fan
	children fan
	alike    bool // all tasks hold and take the same, and none waits for another: they are members of one array
	kinds    []kind
	// class[t] is the index of the resources of task t among the different resources.
	class   []int32
	classes []*Task
	// holds[k][c] is the resources that a task of class c holds on kind k; its first figure is -1 if it does not fit.
	holds [][]need
	// hours[k][t] is the run time of task t on kind k.
	hours [][]float64
	// moveHours[p][q] and moveUSD[p][q] are the time and price of moving a GiB from an instance in place p to another
	// one in place q. moveBack is the transpose of moveHours.
	moveHours, moveBack, moveUSD [][]float64
	egress                       bool // some move of some edge costs money
	// shortest[t] is the run time on the fastest kind that fits; tail[t] is the least time from the end of t to the
	// end of the last task, head[t] the earliest start.
	shortest, head, tail []float64
}

// compile numbers the tasks and the machines. keep selects the machines for the search.
func compile(m *Model, l *links, kinds []int) *problem {
	n := len(m.Tasks)
	p := &problem{
		model: m, links: l, n: n, makespan: m.Objective == optimizer.Makespan,
		deadline: math.Inf(1), budget: math.Inf(1),
		parents:   newFan(n, l.edges, func(e *link) (int32, int32) { return e.to, e.from }),
		children:  newFan(n, l.edges, func(e *link) (int32, int32) { return e.from, e.to }),
		moveHours: m.HoursPerGiB, moveUSD: m.USDPerGiB, moveBack: transposed(m.HoursPerGiB),
	}
	if m.DeadlineHours != nil {
		p.deadline = *m.DeadlineHours
	}
	if m.BudgetUSD != nil {
		p.budget = *m.BudgetUSD
	}
	if p.most = m.MostInstances; p.most == 0 {
		p.most = math.MaxInt
	}
	p.classify()
	p.alike = len(l.edges) == 0 && len(p.classes) == 1 && !slices.ContainsFunc(m.Tasks, func(t Task) bool {
		return t.Hours != m.Tasks[0].Hours
	})
	for _, i := range kinds {
		p.addKind(i)
	}
	p.egress = p.paysEgress()
	p.measurePaths()
	return p
}

func transposed(m [][]float64) [][]float64 {
	t := make([][]float64, len(m))
	for i := range t {
		t[i] = make([]float64, len(m))
		for j := range m {
			t[i][j] = m[j][i]
		}
	}
	return t
}

func (p *problem) task(t int) *Task { return &p.model.Tasks[p.links.order[t]] }

func (p *problem) classify() {
	type sizes struct{ cpus, memory, gpus float64 }
	index := map[sizes]int32{}
	p.class = make([]int32, p.n)
	for t := range p.n {
		of := p.task(t)
		size := sizes{of.CPUs, of.MemoryGiB, of.GPUs}
		c, ok := index[size]
		if !ok {
			c = int32(len(p.classes)) // #nosec G115 -- at most MaxTasks
			index[size] = c
			p.classes = append(p.classes, of)
		}
		p.class[t] = c
	}
}

// steps converts an amount to steps, rounded by round; the largest figures are cut.
func steps(x float64, round func(float64) float64) int32 {
	return int32(min(round(x*unit), 1<<29))
}

func (p *problem) addKind(i int) {
	m := &p.model.Machines[i]
	k := kind{
		machine: i, place: int32(m.Place), price: m.USDPerHour, boot: m.BootHours, // #nosec G115 -- at most MaxPlaces
		minimum: m.MinimumHours, advance: m.IncrementHours, speed: m.Speed, most: m.Most,
	}
	sizes := [3]float64{m.CPUs, m.MemoryGiB, m.GPUs}
	for d, x := range sizes {
		k.has[d] = steps(x, math.Floor)
		if x > 0 {
			k.has[d] = max(k.has[d], 1)
		}
	}
	holds := make([]need, len(p.classes))
	for c, t := range p.classes {
		holds[c] = held(t, m, k.has)
	}
	k.room = smallestRoom(k.has, holds)
	hours := make([]float64, p.n)
	for t := range hours {
		hours[t] = max(p.task(t).Hours/m.Speed, shortest)
	}
	p.kinds, p.holds, p.hours = append(p.kinds, k), append(p.holds, holds), append(p.hours, hours)
}

// smallestRoom is the largest load of an instance on which a task may still fit, by each resource alone.
func smallestRoom(has need, holds []need) need {
	room := need{-1, -1, -1}
	for _, h := range holds {
		for d := range h {
			if h[0] >= 0 {
				room[d] = max(room[d], has[d]-h[d])
			}
		}
	}
	return room
}

// shortest is the run time of a task that takes no time, in hours. It makes clear that the task holds its resources
// when it runs.
const shortest = 1e-10

// held returns the resources that a task holds on a machine. A task that exactly fits holds the whole machine, whatever
// the rounding.
func held(t *Task, m *Machine, has need) need {
	if !fits(t, m) {
		return need{-1}
	}
	var h need
	for d, x := range [3]float64{t.CPUs, t.MemoryGiB, t.GPUs} {
		h[d] = min(steps(x, math.Ceil), has[d])
	}
	return h
}

func fits(t *Task, m *Machine) bool {
	return t.CPUs <= m.CPUs && t.MemoryGiB <= m.MemoryGiB && t.GPUs <= m.GPUs
}

func (p *problem) runs(k, t int) bool { return p.holds[k][p.class[t]][0] >= 0 }

func (p *problem) paysEgress() bool {
	gib, usd := 0.0, 0.0
	for i := range p.links.edges {
		gib = max(gib, p.links.edges[i].gib)
	}
	for _, a := range p.kinds {
		for _, b := range p.kinds {
			usd = max(usd, p.moveUSD[a.place][b.place])
		}
	}
	return gib > 0 && usd > 0
}

// measurePaths computes the least times before and after each task: all tasks on their fastest kinds and no moves.
func (p *problem) measurePaths() {
	p.shortest, p.head, p.tail = make([]float64, p.n), make([]float64, p.n), make([]float64, p.n)
	for t := range p.n {
		short, boot := math.Inf(1), math.Inf(1)
		for k := range p.kinds {
			if p.runs(k, t) {
				short, boot = min(short, p.hours[k][t]), min(boot, p.kinds[k].boot)
			}
		}
		p.shortest[t], p.head[t] = short, boot
		for _, a := range p.parents.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			p.head[t] = max(p.head[t], p.head[a.task]+p.shortest[a.task])
		}
	}
	for t := p.n - 1; t >= 0; t-- {
		for _, a := range p.children.of(int32(t)) { // #nosec G115 -- at most MaxTasks
			p.tail[t] = max(p.tail[t], p.shortest[a.task]+p.tail[a.task])
		}
	}
}

// undominated returns the machines that fit some task and are not worse in everything than enough others in the same
// place, cheapest first. No plan needs more instances of a machine than there are tasks, so dominators with that many
// instances are enough.
func undominated(m *Model, classes []*Task) []int {
	var order []int
	for i := range m.Machines {
		k := &m.Machines[i]
		if k.Most > 0 && slices.ContainsFunc(classes, func(t *Task) bool { return fits(t, k) }) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &m.Machines[a], &m.Machines[b]
		return cmp.Or(cmp.Compare(x.USDPerHour, y.USDPerHour), cmp.Compare(y.Speed*y.CPUs, x.Speed*x.CPUs),
			cmp.Compare(x.BootHours, y.BootHours))
	})
	kept := make([][]int, len(m.Places))
	var all []int
	for _, i := range order {
		place := m.Machines[i].Place
		better := 0
		for _, j := range kept[place] {
			if dominates(&m.Machines[j], &m.Machines[i]) {
				if better += min(m.Machines[j].Most, len(m.Tasks)); better >= len(m.Tasks) {
					break
				}
			}
		}
		if better < len(m.Tasks) {
			kept[place] = append(kept[place], i)
			all = append(all, i)
		}
	}
	return all
}

// dominates reports whether b is not better than a in anything but the number of instances.
func dominates(a, b *Machine) bool {
	return a.USDPerHour <= b.USDPerHour && a.CPUs >= b.CPUs && a.MemoryGiB >= b.MemoryGiB && a.GPUs >= b.GPUs &&
		a.Speed >= b.Speed && a.BootHours <= b.BootHours && a.MinimumHours <= b.MinimumHours &&
		a.IncrementHours <= b.IncrementHours
}

package machines

import (
	"container/heap"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// queue is a service that runs ready tasks, first come first served, on instances that it buys and ends by itself.
type queue struct {
	m *shared.Model
	g *graph
	// startHours is the time from the request of an instance until it runs tasks.
	startHours float64
	// slots is the number of tasks that an instance of a machine runs at a time.
	slots func(machine int) int
	// buy returns the machines to request at a look, when some tasks have no slot on an instance.
	buy func(tasks, instances int) []int
	// lookHours is the time between two looks, keepHours the time that an idle instance stays. If they are infinite,
	// the queue looks once, and ends its instances after the last task.
	lookHours, keepHours float64

	now     float64
	events  events
	open    []int // unfinished parents of each task
	waiting []int
	runs    []shared.Run
	bought  []instance
}

type instance struct {
	machine            int
	from, up, idle, to float64 // idle: since when, if it runs nothing
	free               int
}

// event is the end of a task, or, if task is below 0, a change of instances.
type event struct {
	at   float64
	task int
}

const (
	looks  = -1
	booted = -2
)

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) } //nolint:forcetypeassert // only events
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// run simulates the queue until the last task has ended, and returns what ran where.
func (q *queue) run() *shared.Plan {
	q.runs, q.open = make([]shared.Run, len(q.m.Tasks)), make([]int, len(q.m.Tasks))
	for _, t := range q.g.order {
		if q.open[t] = len(q.g.parents[t]); q.open[t] == 0 {
			q.waiting = append(q.waiting, t)
		}
	}
	heap.Push(&q.events, event{0, looks})
	for ended := 0; ended < len(q.m.Tasks); {
		e := heap.Pop(&q.events).(event) //nolint:forcetypeassert // only events
		q.now = e.at
		switch e.task {
		case looks:
			q.scale()
		case booted:
		default:
			q.finish(e.task)
			ended++
		}
		q.place()
	}
	return q.plan()
}

// finish frees a task's slot, and queues the tasks of which it was the last unfinished parent.
func (q *queue) finish(t int) {
	x := &q.bought[q.runs[t].On]
	x.free++
	x.idle = q.now
	for _, c := range q.g.children[t] {
		if q.open[c.task]--; q.open[c.task] == 0 {
			q.waiting = append(q.waiting, c.task)
		}
	}
}

// scale ends idle instances and buys instances for the waiting tasks.
func (q *queue) scale() {
	missing, alive := len(q.waiting), 0
	for i := range q.bought {
		x := &q.bought[i]
		if x.to <= q.now {
			continue
		}
		if x.free == q.slots(x.machine) && q.now >= max(x.idle, x.up)+q.keepHours {
			x.to = q.now
			continue
		}
		missing -= x.free
		alive++
	}
	if missing > 0 {
		up := q.now + q.startHours
		for _, machine := range q.buy(missing, alive) {
			q.bought = append(q.bought, instance{machine, q.now, up, 0, math.Inf(1), q.slots(machine)})
		}
		heap.Push(&q.events, event{up, booted})
	}
	if !math.IsInf(q.lookHours, 1) {
		heap.Push(&q.events, event{q.now + q.lookHours, looks})
	}
}

// place starts the waiting tasks for which an instance has a slot. Data of parents on other instances arrive first.
func (q *queue) place() {
	i := 0
	for len(q.waiting) > 0 {
		for i < len(q.bought) && (q.bought[i].free == 0 || q.bought[i].up > q.now || q.bought[i].to <= q.now) {
			i++
		}
		if i == len(q.bought) {
			return
		}
		t, x := q.waiting[0], &q.bought[i]
		q.waiting = q.waiting[1:]
		x.free--
		k := &q.m.Machines[x.machine]
		start := max(q.now, arrival(q.m, q.g, q.runs, t, i, k.Place))
		q.runs[t] = shared.Run{On: i, From: start, To: start + q.m.Tasks[t].Hours/k.Speed}
		heap.Push(&q.events, event{q.runs[t].To, t})
	}
}

// arrival is the time at which the outputs of a task's parents are on an instance.
func arrival(m *shared.Model, g *graph, runs []shared.Run, t, on, place int) float64 {
	at := 0.0
	for _, p := range g.parents[t] {
		end := runs[p.task].To
		if runs[p.task].On != on {
			end += p.gib * m.HoursPerGiB[place][place]
		}
		at = max(at, end)
	}
	return at
}

// plan returns the runs, with the instances ended as the queue ends them when no task waits any more.
func (q *queue) plan() *shared.Plan {
	p := &shared.Plan{Tasks: q.runs, Hours: q.now}
	for i := range q.bought {
		x := &q.bought[i]
		switch {
		case !math.IsInf(x.to, 1):
		case math.IsInf(q.keepHours, 1):
			x.to = max(q.now, x.up)
		default:
			x.to = math.Ceil((max(x.idle, x.up)+q.keepHours)/q.lookHours) * q.lookHours
		}
		p.Instances = append(p.Instances, shared.Instance{Machine: x.machine, From: x.from, To: x.to})
	}
	return p
}

package placement

import (
	"slices"

	"github.com/tradewind-broker/tradewind/internal/placement/energy"
)

// EnergyPool is the machines and the demand of the problem as the scores of this package and of pack use them.
func (p *Problem) EnergyPool() *energy.Pool {
	e := &energy.Pool{Unit: Unit, Machines: make([]int, len(p.Shapes)), Instances: make([]int, len(p.Apps))}
	for _, r := range p.Resources {
		e.Points = append(e.Points, r.Points)
	}
	for _, s := range p.Shapes {
		e.Capacity = append(e.Capacity, s.Capacity)
	}
	for _, m := range p.Machines {
		e.Machines[m.Shape]++
	}
	for _, a := range p.Apps {
		e.Demand = append(e.Demand, a.Demand)
	}
	for _, in := range p.Instances {
		e.Instances[in.App]++
	}
	return e
}

// levelAim is the share of machines above the lower bound that levelling fills first. With a smaller share, many
// instances find no room.
const levelAim = 0.05

// levelled places the waiting instances, hardest first, on slightly more machines than the lower bound: those with
// most of the scarce resources. Each instance goes where it raises the energy least. Instances that find no room
// there go to the first of the other machines with room. It reports whether all are placed.
func (n *Network) levelled() bool {
	pool := n.p.EnergyPool()
	order := pool.Order(func(m int32) int { return n.p.Machines[m].Shape }, len(n.p.Machines))
	first := min(len(order), int(float64(LowerBound(n.p))*(1+levelAim)))
	l := levelling{n: n, features: pool.Describe(), machines: order[:first]}
	l.level = make([]float32, first*l.features.N)
	for k, m := range l.machines {
		for _, i := range n.on[m] {
			l.raise(int32(k), n.p.Instances[i].App) //nolint:gosec // machines in memory
		}
	}
	for _, app := range n.sorted() {
		n.waiting[app] = l.place(app, n.waiting[app])
	}
	for _, app := range n.sorted() {
		n.waiting[app] = n.firstFit(app, n.waiting[app], order[first:])
	}
	return n.waits() == 0
}

// firstFit places instances of an app on the first machines with room and returns the others.
func (n *Network) firstFit(app int32, instances, machines []int32) []int32 {
	for _, m := range machines {
		for len(instances) > 0 && n.fits(m, app) {
			n.put(instances[0], m)
			instances = instances[1:]
		}
		if len(instances) == 0 {
			break
		}
	}
	return instances
}

// levelling fills machines evenly.
type levelling struct {
	n        *Network
	features energy.Features
	machines []int32
	level    []float32 // sum of the features on each machine
	queue    energy.Queue
}

// place places instances of an app where they raise the energy least, and returns those without room.
func (l *levelling) place(app int32, instances []int32) (rest []int32) {
	if len(instances) == 0 {
		return nil
	}
	q := &l.queue
	q.Reset()
	for k := range l.machines {
		q.Push(l.rise(int32(k), app), int32(k)) //nolint:gosec // machines in memory
	}
	q.Order()
	for at, i := range instances {
		for q.Len() > 0 && !l.n.fits(l.machines[q.Least()], app) {
			q.Drop() // machines only fill up, so it will not fit here later either
		}
		if q.Len() == 0 {
			return slices.Clone(instances[at:])
		}
		k := q.Least()
		l.n.put(i, l.machines[k])
		l.raise(k, app)
		q.Raise(l.rise(k, app))
	}
	return nil
}

// rise is the energy that an instance of an app adds to a machine.
func (l *levelling) rise(k, app int32) (e float32) {
	x, level := l.features.Of(app), energy.Row(l.level, k, l.features.N)
	w := l.features.For(int32(l.n.p.Machines[l.machines[k]].Shape)) //nolint:gosec // shapes in memory
	w, level = w[:len(x)], level[:len(x)]
	for f, v := range x {
		e += w[f] * v * (2*level[f] + v)
	}
	return e
}

func (l *levelling) raise(k, app int32) {
	level := energy.Row(l.level, k, l.features.N)
	for f, v := range l.features.Of(app) {
		level[f] += v
	}
}

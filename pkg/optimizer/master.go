package optimizer

import "slices"

// master mixes the plans seen so far so that the mixture is cheapest while no
// path seen so far is longer than the deadline (Dantzig-Wolfe decomposition).
// What a path's deadline is worth to the mixture prices the paths, and so gives
// the lagrangian its lambda and flow.
type master struct {
	inst  *instance
	plans []tried
	paths []path
	lp    simplex
	// hours and transfer are the times of tasks and transfers in the last
	// mixture, value its cost.
	hours, transfer []float64
	value           float64
	// the last problem's columns (indices into plans) and their weights; the
	// rest is scratch
	member  []int
	weight  []float64
	cost    []float64
	rows    [][]float64
	rowData []float64
}

// tried is a plan with its cost and its time along each path.
type tried struct {
	plan   plan
	usd    float64
	length []float64
}

// limits of the pools; the oldest plans make room.
const (
	mostPlans = 160
	mostPaths = 60
)

func newMaster(inst *instance) *master {
	return &master{inst: inst, hours: make([]float64, inst.nTask()), transfer: make([]float64, len(inst.edges))}
}

func (ms *master) addPlan(p plan) {
	for i := range ms.plans {
		if slices.Equal(ms.plans[i].plan, p) {
			return
		}
	}
	if len(ms.plans) == mostPlans {
		ms.plans = slices.Delete(ms.plans, 0, mostPlans/4)
	}
	t := tried{plan: slices.Clone(p), usd: ms.inst.cost(p)}
	for i := range ms.paths {
		t.length = append(t.length, ms.inst.lengthOf(p, &ms.paths[i]))
	}
	ms.plans = append(ms.plans, t)
}

// addPath reports whether the path is new.
func (ms *master) addPath(p path) bool {
	for i := range ms.paths {
		if slices.Equal(ms.paths[i].tasks, p.tasks) {
			return false
		}
	}
	if len(ms.paths) == mostPaths {
		ms.dropPath()
	}
	ms.paths = append(ms.paths, p)
	for i := range ms.plans {
		t := &ms.plans[i]
		t.length = append(t.length, ms.inst.lengthOf(t.plan, &p))
	}
	return true
}

// dropPath forgets the first path that was of no value in the last solve.
func (ms *master) dropPath() {
	worthless := 0
	for i := range ms.paths {
		if ms.paths[i].price == 0 && ms.paths[i].best == 0 {
			worthless = i
			break
		}
	}
	ms.paths = slices.Delete(ms.paths, worthless, worthless+1)
	for i := range ms.plans {
		ms.plans[i].length = slices.Delete(ms.plans[i].length, worthless, worthless+1)
	}
}

func (ms *master) begin(b *box, deadline, dear float64) { ms.solve(b, deadline, 100*dear) }

func (ms *master) answer(b *box, p plan, deadline, dear float64) {
	ms.addPlan(p)
	ms.solve(b, deadline, 100*dear)
}

func (ms *master) reach() float64 { return ms.value }

func (ms *master) average() []float64 { return ms.hours }

// solve mixes the plans whose options are all left in b, adds the paths that
// the mixture would be late on, and moves the prices of the paths towards what
// they are worth. Costs from dear on count as out of reach.
func (ms *master) solve(b *box, deadline, dear float64) {
	ms.member, ms.cost = ms.member[:0], ms.cost[:0]
	for i := range ms.plans {
		if b.holds(ms.plans[i].plan) {
			ms.member = append(ms.member, i)
			ms.cost = append(ms.cost, ms.plans[i].usd/dear)
		}
	}
	ms.mix(deadline, dear)
	for range 8 {
		p, length := ms.inst.longestPath(ms.hours, ms.transfer)
		if length <= deadline*(1+1e-12) || !ms.addPath(p) {
			break
		}
		ms.mix(deadline, dear)
	}
	// half way from the best prices known to the new ones: new prices alone
	// swing from one extreme to the other
	for r := range ms.paths {
		ms.paths[r].price = (ms.lp.price(r)*dear/deadline + ms.paths[r].best) / 2
	}
}

// mix solves for the present columns and rows.
func (ms *master) mix(deadline, dear float64) {
	ms.rows = ms.rows[:0]
	ms.rowData = grow(ms.rowData, len(ms.paths)*len(ms.member))
	for r := range ms.paths {
		row := ms.rowData[r*len(ms.member):][:len(ms.member)]
		for k, i := range ms.member {
			row[k] = ms.plans[i].length[r] / deadline
		}
		ms.rows = append(ms.rows, row)
	}
	ms.lp.solve(ms.cost, ms.rows, 1)
	ms.value = ms.lp.value() * dear
	ms.weight = grow(ms.weight, len(ms.member))
	ms.lp.weights(ms.weight)
	ms.blend()
}

// remember makes the present prices those to come back to.
func (ms *master) remember() {
	for r := range ms.paths {
		ms.paths[r].best = ms.paths[r].price
	}
}

// recall goes back to them.
func (ms *master) recall() {
	for r := range ms.paths {
		ms.paths[r].price = ms.paths[r].best
	}
}

// inform sets the lagrangian's lambda and flow to the present prices.
func (ms *master) inform(l *lagrangian) {
	l.lambda = 0
	clear(l.flow.task)
	clear(l.flow.edge)
	for r := range ms.paths {
		p := &ms.paths[r]
		if p.price == 0 {
			continue
		}
		l.lambda += p.price
		for _, t := range p.tasks {
			l.flow.task[t] += p.price
		}
		for _, e := range p.edges {
			l.flow.edge[e] += p.price
		}
	}
	if l.lambda == 0 {
		return
	}
	for t := range l.flow.task {
		l.flow.task[t] /= l.lambda
	}
	for e := range l.flow.edge {
		l.flow.edge[e] /= l.lambda
	}
}

// blend works out the mixture's times of tasks and transfers. They stay as
// they were where there is no mixture to speak of.
func (ms *master) blend() {
	total := 0.0
	for _, w := range ms.weight {
		total += w
	}
	if total < 1e-6 {
		return
	}
	clear(ms.hours)
	clear(ms.transfer)
	for k, i := range ms.member {
		w := ms.weight[k] / total
		if w == 0 {
			continue
		}
		p := ms.plans[i].plan
		for t := range ms.hours {
			ms.hours[t] += w * ms.inst.opts[ms.inst.first[t]+p[t]].hours
		}
		for e := range ms.transfer {
			ms.transfer[e] += w * ms.inst.transferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
		}
	}
}

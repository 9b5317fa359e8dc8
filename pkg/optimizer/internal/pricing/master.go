package pricing

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// master mixes the plans seen so far at minimum cost such that no path seen so far is longer than the deadline
// (Dantzig-Wolfe decomposition). The dual values of the paths' deadlines are the prices of the paths, which give the
// lagrangian its lambda and flow.
type master struct {
	inst  *problem.Instance
	plans []tried
	paths []problem.Path
	lp    Program
	// hours and transfer are the times of tasks and transfers in the last mixture; value is its cost.
	hours, transfer []float64
	value           float64
	// The columns (indices into plans) of the last program and their weights; the rest is scratch space.
	member  []int
	weight  []float64
	cost    []float64
	rows    [][]float64
	rowData []float64
}

// tried is a plan with its cost and its time along each path.
type tried struct {
	plan   problem.Plan
	usd    float64
	length []float64
}

// Maximum sizes of the pools. The oldest plans are dropped.
const (
	maxPlans = 160
	maxPaths = 60
)

func newMaster(inst *problem.Instance) *master {
	return &master{inst: inst, hours: make([]float64, inst.NTask()), transfer: make([]float64, len(inst.Edges))}
}

func (ms *master) addPlan(p problem.Plan) {
	for i := range ms.plans {
		if slices.Equal(ms.plans[i].plan, p) {
			return
		}
	}
	if len(ms.plans) == maxPlans {
		ms.plans = slices.Delete(ms.plans, 0, maxPlans/4)
	}
	t := tried{plan: slices.Clone(p), usd: ms.inst.Cost(p)}
	for i := range ms.paths {
		t.length = append(t.length, ms.inst.LengthOf(p, &ms.paths[i]))
	}
	ms.plans = append(ms.plans, t)
}

// addPath adds a path and reports whether it is new.
func (ms *master) addPath(p problem.Path) bool {
	for i := range ms.paths {
		if slices.Equal(ms.paths[i].Tasks, p.Tasks) {
			return false
		}
	}
	if len(ms.paths) == maxPaths {
		ms.dropPath()
	}
	ms.paths = append(ms.paths, p)
	for i := range ms.plans {
		t := &ms.plans[i]
		t.length = append(t.length, ms.inst.LengthOf(t.plan, &p))
	}
	return true
}

// dropPath drops the first path without a price in the last solve.
func (ms *master) dropPath() {
	worthless := 0
	for i := range ms.paths {
		if ms.paths[i].Price == 0 && ms.paths[i].Best == 0 {
			worthless = i
			break
		}
	}
	ms.paths = slices.Delete(ms.paths, worthless, worthless+1)
	for i := range ms.plans {
		ms.plans[i].length = slices.Delete(ms.plans[i].length, worthless, worthless+1)
	}
}

func (ms *master) Begin(b *windows.Box, deadline, dear float64) { ms.solve(b, deadline, 100*dear) }

func (ms *master) Answer(b *windows.Box, p problem.Plan, deadline, dear float64) {
	ms.addPlan(p)
	ms.solve(b, deadline, 100*dear)
}

func (ms *master) Reach() float64 { return ms.value }

func (ms *master) Average() []float64 { return ms.hours }

// solve mixes the plans that are completely in b, adds the paths on which the mixture would be late, and moves the
// prices of the paths towards their dual values. dear is the cost scale of the program, far above all useful costs.
func (ms *master) solve(b *windows.Box, deadline, dear float64) {
	ms.member, ms.cost = ms.member[:0], ms.cost[:0]
	for i := range ms.plans {
		if b.Holds(ms.plans[i].plan) {
			ms.member = append(ms.member, i)
			ms.cost = append(ms.cost, ms.plans[i].usd/dear)
		}
	}
	ms.mix(deadline, dear)
	for range 8 {
		p, length := ms.inst.LongestPath(ms.hours, ms.transfer)
		if length <= deadline*(1+1e-12) || !ms.addPath(p) {
			break
		}
		ms.mix(deadline, dear)
	}
	// Prices move half way from the best known to the new ones, because the new ones alone swing between extremes.
	for r := range ms.paths {
		ms.paths[r].Price = (ms.lp.Price(r)*dear/deadline + ms.paths[r].Best) / 2
	}
}

// mix solves the program for the current columns and rows.
func (ms *master) mix(deadline, dear float64) {
	ms.rows = ms.rows[:0]
	ms.rowData = search.Grow(ms.rowData, len(ms.paths)*len(ms.member))
	for r := range ms.paths {
		row := ms.rowData[r*len(ms.member):][:len(ms.member)]
		for k, i := range ms.member {
			row[k] = ms.plans[i].length[r] / deadline
		}
		ms.rows = append(ms.rows, row)
	}
	ms.lp.Solve(ms.cost, ms.rows, 1)
	ms.value = ms.lp.Value() * dear
	ms.weight = search.Grow(ms.weight, len(ms.member))
	ms.lp.Weights(ms.weight)
	ms.blend()
}

// Remember stores the current prices as the best ones.
func (ms *master) Remember() {
	for r := range ms.paths {
		ms.paths[r].Best = ms.paths[r].Price
	}
}

// Recall restores the best prices.
func (ms *master) Recall() {
	for r := range ms.paths {
		ms.paths[r].Price = ms.paths[r].Best
	}
}

// Inform sets the lagrangian's lambda and flow to the current prices.
func (ms *master) Inform(l *Lagrangian) {
	l.Lambda = 0
	clear(l.Flow.Task)
	clear(l.Flow.edge)
	for r := range ms.paths {
		p := &ms.paths[r]
		if p.Price == 0 {
			continue
		}
		l.Lambda += p.Price
		for _, t := range p.Tasks {
			l.Flow.Task[t] += p.Price
		}
		for _, e := range p.Edges {
			l.Flow.edge[e] += p.Price
		}
	}
	if l.Lambda == 0 {
		return
	}
	for t := range l.Flow.Task {
		l.Flow.Task[t] /= l.Lambda
	}
	for e := range l.Flow.edge {
		l.Flow.edge[e] /= l.Lambda
	}
}

// blend computes the times of tasks and transfers in the mixture. It leaves them unchanged if the mixture is nearly
// empty.
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
			ms.hours[t] += w * ms.inst.Opts[ms.inst.First[t]+p[t]].Hours
		}
		for e := range ms.transfer {
			ms.transfer[e] += w * ms.inst.TransferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
		}
	}
}

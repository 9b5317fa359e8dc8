// Package problem is a placement problem in the form that the methods work on: tasks, places, options, edges and the
// transfers between places, all by number, and the cost and time of its plans. Package optimizer creates it from a
// model. The equations are those of the intercloud broker's ILP formulation.
package problem

import "slices"

// Instance is a model in canonical form: tasks in the order of their ids, used places in the order of their names,
// and each task's candidates reduced to the options that can matter. Every method works only on it, so the plan does
// not depend on the order of tasks, places, candidates and edges in the model.
type Instance struct {
	Links
	// NPlace is the number of places. USD and Hrs are NPlace×NPlace row-major matrices per GiB, from the row's place
	// to the column's. USDT and HrsT are their transposes; HrsT is nil if only the cost matters.
	NPlace               int
	USD, USDT, Hrs, HrsT []float64
	// Opts has task t's options at Opts[First[t]:First[t+1]], by place and within a place by rising cost.
	Opts  []Option
	First []int32
	// Spans groups task t's options by place: Spans[spanFirst[t]:spanFirst[t+1]].
	Spans     []Span
	spanFirst []int32
	// In and Out are the indices of the edges that end and start at a task: In.Of(t), Out.Of(t).
	In, Out Adjacency
}

// Option is a candidate that was kept by folding.
type Option struct {
	Place int32 // canonical
	Cand  int32 // index into the task's candidates
	USD   float64
	Hours float64
}

// Span is the range Opts[Lo:Hi] of options of one task at one place, from the cheapest and slowest to the most
// expensive and fastest.
type Span struct {
	Place, Lo, Hi int32
}

// NTask returns the number of tasks.
func (inst *Instance) NTask() int { return len(inst.Order) }

// Options returns the options of task t.
func (inst *Instance) Options(t int32) []Option {
	return inst.Opts[inst.First[t]:inst.First[t+1]]
}

// GroupByPlace sets Spans from Opts and First.
func (inst *Instance) GroupByPlace() {
	inst.spanFirst = make([]int32, len(inst.Order)+1)
	inst.Spans = make([]Span, 0, len(inst.Opts))
	for t := range inst.Order {
		for o := inst.First[t]; o < inst.First[t+1]; o++ {
			if n := len(inst.Spans); o > inst.First[t] && inst.Spans[n-1].Place == inst.Opts[o].Place {
				inst.Spans[n-1].Hi++
				continue
			}
			inst.Spans = append(inst.Spans, Span{Place: inst.Opts[o].Place, Lo: o, Hi: o + 1})
		}
		inst.spanFirst[t+1] = int32(len(inst.Spans)) // #nosec G115 -- at most MaxCandidates
	}
}

// SpansOf returns the options of task t by place.
func (inst *Instance) SpansOf(t int32) []Span {
	return inst.Spans[inst.spanFirst[t]:inst.spanFirst[t+1]]
}

// Adjacency stores edge indices by task, in compressed rows.
type Adjacency struct {
	start []int32
	list  []int32
}

// Of returns the edges of task t.
func (a *Adjacency) Of(t int32) []int32 { return a.list[a.start[t]:a.start[t+1]] }

// Adjacent returns the edges of n tasks by the end that the function returns.
func Adjacent(n int, edges []Link, end func(*Link) int32) Adjacency {
	a := Adjacency{start: make([]int32, n+1), list: make([]int32, len(edges))}
	for i := range edges {
		a.start[end(&edges[i])+1]++
	}
	for t := range n {
		a.start[t+1] += a.start[t]
	}
	next := slices.Clone(a.start[:n])
	for i := range edges {
		t := end(&edges[i])
		a.list[next[t]] = int32(i) // #nosec G115 -- at most MaxEdges
		next[t]++
	}
	return a
}

// Plan is one option for each task, as an index into the task's options.
type Plan []int32

// Cost returns the plan's total cost in USD (equation 1).
func (inst *Instance) Cost(p Plan) float64 { return inst.CostOf(p, inst.Topo) }

// CostOf returns the part of the plan's cost for the given tasks and the transfers from them.
func (inst *Instance) CostOf(p Plan, tasks []int32) float64 {
	total := 0.0
	for _, t := range tasks {
		total += inst.Opts[inst.First[t]+p[t]].USD
		from := inst.PlaceOf(p, t) * inst.NPlace
		for _, i := range inst.Out.Of(t) {
			e := &inst.Edges[i]
			total += e.SumGiB * inst.USD[from+inst.PlaceOf(p, e.To)]
		}
	}
	return total
}

// Makespan returns the hour at which the plan's last task finishes (equation 3).
func (inst *Instance) Makespan(p Plan) float64 {
	finish := make([]float64, len(p))
	last := 0.0
	for _, t := range inst.Topo {
		start := 0.0
		to := inst.PlaceOf(p, t)
		for _, i := range inst.In.Of(t) {
			e := &inst.Edges[i]
			start = max(start, finish[e.From]+e.MaxGiB*inst.Hrs[inst.PlaceOf(p, e.From)*inst.NPlace+to])
		}
		finish[t] = start + inst.Opts[inst.First[t]+p[t]].Hours
		last = max(last, finish[t])
	}
	return last
}

// PlaceOf returns the place of task t in plan p.
func (inst *Instance) PlaceOf(p Plan, t int32) int {
	return int(inst.Opts[inst.First[t]+p[t]].Place)
}

// Picks converts a plan to candidate indices by model task.
func (inst *Instance) Picks(p Plan) []int {
	out := make([]int, len(p))
	for t, i := range inst.Order {
		out[i] = int(inst.Opts[inst.First[t]+p[t]].Cand)
	}
	return out
}

// LocalCosts writes to dst the cost of each option of t with the rest of p fixed: its own cost and that of the
// transfers from and to its neighbours.
func (inst *Instance) LocalCosts(dst []float64, p Plan, t int32) {
	opts := inst.Options(t)
	for k := range opts {
		dst[k] = opts[k].USD
	}
	for _, e := range inst.Out.Of(t) {
		l := &inst.Edges[e]
		if l.SumGiB == 0 {
			continue
		}
		prices := inst.USDT[inst.PlaceOf(p, l.To)*inst.NPlace:][:inst.NPlace]
		for k := range opts {
			dst[k] += l.SumGiB * prices[opts[k].Place]
		}
	}
	for _, e := range inst.In.Of(t) {
		l := &inst.Edges[e]
		if l.SumGiB == 0 {
			continue
		}
		prices := inst.USD[inst.PlaceOf(p, l.From)*inst.NPlace:][:inst.NPlace]
		for k := range opts {
			dst[k] += l.SumGiB * prices[opts[k].Place]
		}
	}
}

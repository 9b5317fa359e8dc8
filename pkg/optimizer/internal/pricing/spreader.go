package pricing

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Spreader spreads the price of time over all paths at once. A path weighs
// exp(score), its score the sum of those of its tasks and edges, and a task's or
// edge's score rises with the time that it takes in each plan that answers:
// exponentiated gradient ascent over exponentially many paths, at the cost of
// one pass over the graph (Freund and Schapire, Adaptive game playing using
// multiplicative weights, 1999).
type Spreader struct {
	inst   *problem.Instance
	flow   flow
	tail   []float64 // log of the weight of the paths after a task's finish
	state  spread
	kept   spread
	mean   []float64 // running average of the tasks' times
	rounds int
	// Urgent has lambda answer to the longest path of the last plan rather
	// than to the flow's time: for plans within the deadline, not for bounds.
	Urgent bool
}

type spread struct {
	lambda     float64
	task, edge []float64 // scores
}

func newSpreader(inst *problem.Instance, cheap, fast problem.Plan) *Spreader {
	n, m := inst.NTask(), len(inst.Edges)
	sp := &Spreader{
		inst: inst, flow: flow{Task: make([]float64, n), edge: make([]float64, m)}, tail: make([]float64, n),
		state: spread{task: make([]float64, n), edge: make([]float64, m)}, mean: make([]float64, n),
	}
	usd, hours := inst.Cost(fast)-inst.Cost(cheap), inst.Makespan(cheap)-inst.Makespan(fast)
	sp.state.lambda = 1
	if usd > 0 && hours > 0 {
		// the price between the ends is a dear one: most of what can be
		// saved costs less
		sp.state.lambda = usd / hours / 10
	}
	sp.score(cheap, 20/inst.Makespan(cheap))
	for t := range sp.mean {
		sp.mean[t] = inst.Opts[inst.First[t]+cheap[t]].Hours
	}
	sp.spread()
	sp.Remember()
	return sp
}

// Begin comes back to the best prices, whatever the box.
func (sp *Spreader) Begin(*windows.Box, float64, float64) { sp.Recall() }

// Answer raises the scores along the plan, and moves lambda by how late the flow is.
func (sp *Spreader) Answer(_ *windows.Box, p problem.Plan, deadline, _ float64) {
	// steps shrink slowly enough to make up for a bad start, those of lambda,
	// which has furthest to go, the slowest
	age := 1 + 0.05*float64(sp.rounds)
	sp.rounds++
	late := sp.time(p)/deadline - 1
	if sp.Urgent {
		late = sp.inst.Makespan(p)/deadline - 1
	}
	sp.state.lambda *= math.Exp(max(-0.5, min(0.5, 4*math.Pow(age, -0.2)*late)))
	sp.score(p, 10*math.Pow(age, -0.7)/deadline)
	sp.spread()
	for t := range sp.mean {
		sp.mean[t] += 0.1 * (sp.inst.Opts[sp.inst.First[t]+p[t]].Hours - sp.mean[t])
	}
}

// score adds the plan's times to the scores.
func (sp *Spreader) score(p problem.Plan, perHour float64) {
	if math.IsInf(perHour, 0) || math.IsNaN(perHour) {
		return // a plan that takes no time
	}
	for t := range sp.state.task {
		sp.state.task[t] += perHour * sp.inst.Opts[sp.inst.First[t]+p[t]].Hours
	}
	for e := range sp.state.edge {
		sp.state.edge[e] += perHour * sp.inst.TransferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
}

// time is that of plan p along the flow.
func (sp *Spreader) time(p problem.Plan) float64 {
	total := 0.0
	for t, x := range sp.flow.Task {
		total += x * sp.inst.Opts[sp.inst.First[t]+p[t]].Hours
	}
	for e, x := range sp.flow.edge {
		total += x * sp.inst.TransferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
	return total
}

// spread works the flow out from the scores.
func (sp *Spreader) spread() {
	inst, f := sp.inst, &sp.flow
	var sources []int32
	for _, t := range slices.Backward(inst.Topo) {
		sp.tail[t] = fork(inst.Out.Of(t), f.edge, func(e int32) float64 {
			w := inst.Edges[e].To
			return sp.tail[w] + sp.state.task[w] + sp.state.edge[e]
		})
		f.Task[t] = 0
		if len(inst.In.Of(t)) == 0 {
			sources = append(sources, t)
		}
	}
	fork(sources, f.Task, func(t int32) float64 { return sp.tail[t] + sp.state.task[t] })
	// the shares that fork left on the edges become amounts
	for _, t := range inst.Topo {
		for _, e := range inst.Out.Of(t) {
			f.edge[e] *= f.Task[t]
			f.Task[inst.Edges[e].To] += f.edge[e]
		}
	}
}

// fork writes to share the part of each entry of list in the sum of exp(x), and
// returns the sum's logarithm: 0 for an empty list, the path that ends here.
// The shares add up to one to the last digit or so, on which the bound relies.
func fork(list []int32, share []float64, x func(int32) float64) float64 {
	if len(list) == 0 {
		return 0
	}
	most := math.Inf(-1)
	for _, i := range list {
		share[i] = x(i)
		most = max(most, share[i])
	}
	total := 0.0
	for _, i := range list {
		share[i] = math.Exp(share[i] - most)
		total += share[i]
	}
	for _, i := range list {
		share[i] /= total
	}
	return most + math.Log(total)
}

// Inform sets the lagrangian's lambda and flow.
func (sp *Spreader) Inform(l *Lagrangian) {
	l.Lambda = sp.state.lambda
	copy(l.Flow.Task, sp.flow.Task)
	copy(l.Flow.edge, sp.flow.edge)
}

// Remember keeps the scores.
func (sp *Spreader) Remember() { sp.state.copyTo(&sp.kept) }

// Recall goes back to them.
func (sp *Spreader) Recall() {
	sp.kept.copyTo(&sp.state)
	sp.spread()
}

func (s *spread) copyTo(dst *spread) {
	dst.lambda = s.lambda
	dst.task = append(dst.task[:0], s.task...)
	dst.edge = append(dst.edge[:0], s.edge...)
}

// Reach is not known.
func (sp *Spreader) Reach() float64 { return search.Inf }

// Average is a running one.
func (sp *Spreader) Average() []float64 { return sp.mean }

package pricing

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Spreader spreads the price of time over all paths at once. A path has the weight exp(score); its score is the sum
// of the scores of its tasks and edges. The score of a task or edge rises with its time in each plan that the
// lagrangian returns. This is exponentiated gradient ascent over exponentially many paths, at the cost of one pass
// over the graph (Freund and Schapire, Adaptive game playing using multiplicative weights, 1999).
type Spreader struct {
	inst   *problem.Instance
	flow   flow
	tail   []float64 // log of the weight of the paths after a task's finish
	state  spread
	kept   spread
	mean   []float64 // running average of the tasks' times
	rounds int
	// Urgent makes lambda follow the longest path of the last plan instead of the flow's time. It is for finding
	// plans within the deadline, not for bounds.
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
		// the price between the ends is high: most savings cost less
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

// Begin restores the best prices, whatever the box.
func (sp *Spreader) Begin(*windows.Box, float64, float64) { sp.Recall() }

// Answer raises the scores along the plan and changes lambda by how late the flow is.
func (sp *Spreader) Answer(_ *windows.Box, p problem.Plan, deadline, _ float64) {
	// Steps shrink slowly enough to recover from a bad start. Those of lambda, which has furthest to go, shrink
	// slowest.
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

// time returns the time of plan p along the flow.
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

// spread computes the flow from the scores.
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
	// convert the shares that fork wrote for the edges to amounts
	for _, t := range inst.Topo {
		for _, e := range inst.Out.Of(t) {
			f.edge[e] *= f.Task[t]
			f.Task[inst.Edges[e].To] += f.edge[e]
		}
	}
}

// fork writes to share the part of each entry of list in the sum of exp(x), and returns the logarithm of the sum. For
// an empty list, the end of a path, it returns 0. The shares add up to one within rounding; the bound depends on
// this.
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

// Remember stores the scores.
func (sp *Spreader) Remember() { sp.state.copyTo(&sp.kept) }

// Recall restores the stored scores.
func (sp *Spreader) Recall() {
	sp.kept.copyTo(&sp.state)
	sp.spread()
}

func (s *spread) copyTo(dst *spread) {
	dst.lambda = s.lambda
	dst.task = append(dst.task[:0], s.task...)
	dst.edge = append(dst.edge[:0], s.edge...)
}

// Reach returns +Inf, because the best possible bound is unknown.
func (sp *Spreader) Reach() float64 { return search.Inf }

// Average returns a running average.
func (sp *Spreader) Average() []float64 { return sp.mean }

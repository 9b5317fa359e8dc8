package optimizer

import (
	"math"
	"slices"
)

// spreader spreads the price of time over all paths at once. A path weighs
// exp(score), its score the sum of those of its tasks and edges, and a task's or
// edge's score rises with the time that it takes in each plan that answers:
// exponentiated gradient ascent over exponentially many paths, at the cost of
// one pass over the graph (Freund and Schapire, Adaptive game playing using
// multiplicative weights, 1999).
type spreader struct {
	inst   *instance
	flow   flow
	tail   []float64 // log of the weight of the paths after a task's finish
	state  spread
	kept   spread
	mean   []float64 // running average of the tasks' times
	rounds int
	// urgent has lambda answer to the longest path of the last plan rather
	// than to the flow's time: for plans within the deadline, not for bounds.
	urgent bool
}

type spread struct {
	lambda     float64
	task, edge []float64 // scores
}

func newSpreader(inst *instance, cheap, fast plan) *spreader {
	n, m := inst.nTask(), len(inst.edges)
	sp := &spreader{
		inst: inst, flow: flow{task: make([]float64, n), edge: make([]float64, m)}, tail: make([]float64, n),
		state: spread{task: make([]float64, n), edge: make([]float64, m)}, mean: make([]float64, n),
	}
	usd, hours := inst.cost(fast)-inst.cost(cheap), inst.makespan(cheap)-inst.makespan(fast)
	sp.state.lambda = 1
	if usd > 0 && hours > 0 {
		// the price between the ends is a dear one: most of what can be
		// saved costs less
		sp.state.lambda = usd / hours / 10
	}
	sp.score(cheap, 20/inst.makespan(cheap))
	for t := range sp.mean {
		sp.mean[t] = inst.opts[inst.first[t]+cheap[t]].hours
	}
	sp.spread()
	sp.remember()
	return sp
}

func (sp *spreader) begin(*box, float64, float64) { sp.recall() }

func (sp *spreader) answer(_ *box, p plan, deadline, _ float64) {
	// steps shrink slowly enough to make up for a bad start, those of lambda,
	// which has furthest to go, the slowest
	age := 1 + 0.05*float64(sp.rounds)
	sp.rounds++
	late := sp.time(p)/deadline - 1
	if sp.urgent {
		late = sp.inst.makespan(p)/deadline - 1
	}
	sp.state.lambda *= math.Exp(max(-0.5, min(0.5, 4*math.Pow(age, -0.2)*late)))
	sp.score(p, 10*math.Pow(age, -0.7)/deadline)
	sp.spread()
	for t := range sp.mean {
		sp.mean[t] += 0.1 * (sp.inst.opts[sp.inst.first[t]+p[t]].hours - sp.mean[t])
	}
}

// score adds the plan's times to the scores.
func (sp *spreader) score(p plan, perHour float64) {
	if math.IsInf(perHour, 0) || math.IsNaN(perHour) {
		return // a plan that takes no time
	}
	for t := range sp.state.task {
		sp.state.task[t] += perHour * sp.inst.opts[sp.inst.first[t]+p[t]].hours
	}
	for e := range sp.state.edge {
		sp.state.edge[e] += perHour * sp.inst.transferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
}

// time is that of plan p along the flow.
func (sp *spreader) time(p plan) float64 {
	total := 0.0
	for t, x := range sp.flow.task {
		total += x * sp.inst.opts[sp.inst.first[t]+p[t]].hours
	}
	for e, x := range sp.flow.edge {
		total += x * sp.inst.transferHours(p, int32(e)) // #nosec G115 -- at most MaxEdges
	}
	return total
}

// spread works the flow out from the scores.
func (sp *spreader) spread() {
	inst, f := sp.inst, &sp.flow
	var sources []int32
	for _, t := range slices.Backward(inst.topo) {
		sp.tail[t] = fork(inst.out.of(t), f.edge, func(e int32) float64 {
			w := inst.edges[e].to
			return sp.tail[w] + sp.state.task[w] + sp.state.edge[e]
		})
		f.task[t] = 0
		if len(inst.in.of(t)) == 0 {
			sources = append(sources, t)
		}
	}
	fork(sources, f.task, func(t int32) float64 { return sp.tail[t] + sp.state.task[t] })
	// the shares that fork left on the edges become amounts
	for _, t := range inst.topo {
		for _, e := range inst.out.of(t) {
			f.edge[e] *= f.task[t]
			f.task[inst.edges[e].to] += f.edge[e]
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

func (sp *spreader) inform(l *lagrangian) {
	l.lambda = sp.state.lambda
	copy(l.flow.task, sp.flow.task)
	copy(l.flow.edge, sp.flow.edge)
}

func (sp *spreader) remember() { sp.state.copyTo(&sp.kept) }

func (sp *spreader) recall() {
	sp.kept.copyTo(&sp.state)
	sp.spread()
}

func (s *spread) copyTo(dst *spread) {
	dst.lambda = s.lambda
	dst.task = append(dst.task[:0], s.task...)
	dst.edge = append(dst.edge[:0], s.edge...)
}

func (sp *spreader) reach() float64 { return inf }

func (sp *spreader) average() []float64 { return sp.mean }

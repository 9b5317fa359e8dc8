package leastcost

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// costStarts returns the plans from which the search for a cheap plan starts: each task at its own cheapest option;
// and all tasks at the single place with the lowest total cost, except that tasks that cannot run there are at their
// cheapest option.
func costStarts(inst *problem.Instance) []problem.Plan {
	alone := make(problem.Plan, inst.NTask())
	atPlace := make([]float64, inst.NPlace)
	for t := range alone {
		opts := inst.Options(int32(t)) // #nosec G115 -- at most MaxTasks
		for k := range opts {
			if opts[k].USD < opts[alone[t]].USD {
				alone[t] = int32(k) // #nosec G115 -- at most MaxCandidates
			}
		}
		addPlaceCosts(atPlace, opts, opts[alone[t]].USD)
	}
	moved := 0.0
	for i := range inst.Edges {
		moved += inst.Edges[i].SumGiB
	}
	best := 0
	for p := range atPlace {
		atPlace[p] += moved * inst.USD[p*inst.NPlace+p]
		if atPlace[p] < atPlace[best] {
			best = p
		}
	}
	together := make(problem.Plan, len(alone))
	for t := range together {
		together[t] = alone[t]
		for k, o := range inst.Options(int32(t)) { // #nosec G115 -- at most MaxTasks
			if int(o.Place) == best {
				together[t] = int32(k) // #nosec G115 -- at most MaxCandidates
				break
			}
		}
	}
	return []problem.Plan{alone, together}
}

// addPlaceCosts adds a task's cost at each place, or least where it has no option.
func addPlaceCosts(atPlace []float64, opts []problem.Option, least float64) {
	p := 0
	for k := range opts {
		place := int(opts[k].Place)
		if k > 0 && int(opts[k-1].Place) == place {
			continue // a more expensive option at the same place
		}
		for ; p < place; p++ {
			atPlace[p] += least
		}
		atPlace[p] += opts[k].USD
		p++
	}
	for ; p < len(atPlace); p++ {
		atPlace[p] += least
	}
}

// improver moves one task of a plan at a time to its cheapest option, given the others, until no move lowers the
// cost.
type improver struct {
	inst   *problem.Instance
	queued []bool
	queue  []int32
	cost   []float64
}

func newImprover(inst *problem.Instance) *improver {
	return &improver{inst: inst, queued: make([]bool, inst.NTask())}
}

// improve changes p for the given tasks. They must include the neighbours of each of them.
func (im *improver) improve(p problem.Plan, tasks []int32, m *search.Meter) {
	im.queue = im.queue[:0]
	for _, t := range tasks {
		im.queue = append(im.queue, t)
		im.queued[t] = true
	}
	for head := 0; head < len(im.queue); head++ {
		t := im.queue[head]
		im.queued[t] = false
		if m.Stopped || !im.place(p, t, m) {
			continue
		}
		for _, e := range im.inst.Out.Of(t) {
			im.enqueue(im.inst.Edges[e].To)
		}
		for _, e := range im.inst.In.Of(t) {
			im.enqueue(im.inst.Edges[e].From)
		}
	}
}

func (im *improver) enqueue(t int32) {
	if !im.queued[t] {
		im.queued[t] = true
		im.queue = append(im.queue, t)
	}
}

// place moves task t to its best option and reports whether that changed it. A gain that may be a rounding error does
// not count, so that the changes end.
func (im *improver) place(p problem.Plan, t int32, m *search.Meter) bool {
	opts := im.inst.Options(t)
	im.cost = search.Grow(im.cost, len(opts))
	im.inst.LocalCosts(im.cost, p, t)
	m.Spend(len(opts) * (1 + len(im.inst.Out.Of(t)) + len(im.inst.In.Of(t))))
	best := p[t]
	for k, x := range im.cost {
		if x < im.cost[best] {
			best = int32(k) // #nosec G115 -- at most MaxCandidates
		}
	}
	if best == p[t] || im.cost[best] >= im.cost[p[t]]-1e-12*im.cost[p[t]] {
		return false
	}
	p[t] = best
	return true
}

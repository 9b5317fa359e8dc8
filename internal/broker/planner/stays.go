package planner

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// stay is the place, time and cost of a row of the model.
type stay struct {
	place      int
	hours, usd float64 // expected
}

// stays returns the stay of each row in a solution.
func (b *builder) stays(sol *optimizer.Solution) []stay {
	out := make([]stay, len(b.rows))
	for r := range b.rows {
		c := b.model.Tasks[r].Candidates[sol.Picks[r]]
		out[r] = stay{c.Place, c.Hours, c.USD}
		if options := b.rows[r].options; options != nil {
			out[r].hours = options[sol.Picks[r]].expected
		} else if at := b.fleets.stopOf(b.rows[r].task); at != nil {
			out[r].hours = at.expected
		}
	}
	return out
}

// expectedHours returns the expected makespan. With a deadline, the model has the guaranteed times of spot runs, so
// that the deadline is met even with bad luck. Users see the expected time.
func (b *builder) expectedHours(at []stay) float64 {
	finish := make([]float64, len(b.rows))
	incoming := make([][]optimizer.Edge, len(b.rows))
	for _, e := range b.model.Edges {
		incoming[b.index[e.To]] = append(incoming[b.index[e.To]], e)
	}
	run := func(r int) {
		start := 0.0
		for _, e := range incoming[r] {
			from := b.index[e.From]
			start = math.Max(start, finish[from]+e.GiB*b.model.HoursPerGiB[at[from].place][at[r].place])
		}
		finish[r] = start + at[r].hours
	}
	for range b.fleets.layers() {
		for _, task := range b.in.Spec.Order() {
			if r := b.byTask[task]; r >= 0 {
				run(r)
			}
		}
		for r := range b.rows {
			if b.rows[r].task < 0 {
				run(r)
			}
		}
	}
	return slices.Max(append(finish, 0))
}

// usd returns the total cost, including data transfer.
func (b *builder) usd(at []stay) float64 {
	sum := 0.0
	for _, s := range at {
		sum += s.usd
	}
	for _, e := range b.model.Edges {
		sum += e.GiB * b.model.USDPerGiB[at[b.index[e.From]].place][at[b.index[e.To]].place]
	}
	return sum
}

// onDemandUSD returns the cost of a plan's work on demand, including data transfer. It is the minimum of the cost in
// the plan's regions and the cost with each task at its cheapest place. If time counts, neither a task nor the whole
// job may be slower than in the plan.
func (b *builder) onDemandUSD(at []stay, hours float64) float64 {
	here, anywhere := slices.Clone(at), slices.Clone(at)
	for r := range b.rows {
		if b.rows[r].class != nil {
			here[r] = b.onDemand(r, at[r], true)
			anywhere[r] = b.onDemand(r, at[r], false)
		}
	}
	usd := b.usd(here)
	if !b.timed() || b.expectedHours(anywhere) <= hours {
		usd = math.Min(usd, b.usd(anywhere))
	}
	return usd
}

// onDemand returns the cheapest way to run a row's task on demand, on any machine that suits it. If time counts, it
// must not be slower than planned.
func (b *builder) onDemand(r int, as stay, samePlace bool) stay {
	known, query := b.rows[r].list.onDemand, onDemandQuery{as, samePlace}
	if best, ok := known[query]; ok {
		return best
	}
	best := b.findOnDemand(r, as, samePlace)
	if known != nil {
		known[query] = best
	}
	return best
}

// findOnDemand is onDemand without the remembered results.
func (b *builder) findOnDemand(r int, as stay, samePlace bool) stay {
	i, best := b.rows[r].task, stay{usd: math.Inf(1)}
	for _, nodes := range b.counts(i) {
		for _, m := range b.rows[r].class.matches {
			hours := m.bootHours() + b.work(i, m, nodes)
			if samePlace && m.place != as.place || b.timed() && hours > as.hours {
				continue
			}
			if usd := m.billedHours(b.work(i, m, nodes)) * m.onDemand * float64(nodes); usd < best.usd {
				best = stay{m.place, hours, usd}
			}
		}
	}
	return best
}

// timed reports whether time counts in addition to money.
func (b *builder) timed() bool {
	return b.timeWeight() > 0 || b.model.DeadlineHours != nil
}

// timeWeight returns the amount that an hour of the makespan adds to the objective.
func (b *builder) timeWeight() float64 {
	switch b.model.Objective {
	case optimizer.Makespan:
		return 1
	case optimizer.Weighted:
		return b.model.Weights.Hours
	}
	return 0
}

package planner

import (
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// stay is where a row of the model is, for how long and for what.
type stay struct {
	place      int
	hours, usd float64 // to expect
}

// stays reads off a solution where each row is.
func (b *builder) stays(sol *optimizer.Solution) []stay {
	out := make([]stay, len(b.rows))
	for r := range b.rows {
		c := b.model.Tasks[r].Candidates[sol.Picks[r]]
		out[r] = stay{c.Place, c.Hours, c.USD}
		if options := b.rows[r].options; options != nil {
			out[r].hours = options[sol.Picks[r]].expected
		}
	}
	return out
}

// expectedHours is the makespan to expect. With a deadline the model counts with what a spot run is guaranteed to
// take, so that the deadline is kept even by an unlucky one; people are told what to expect.
func (b *builder) expectedHours(at []stay) float64 {
	finish := make([]float64, len(b.rows))
	incoming := make([][]optimizer.Edge, len(b.rows))
	for _, e := range b.model.Edges {
		incoming[b.index[e.To]] = append(incoming[b.index[e.To]], e)
	}
	longest := 0.0
	for _, task := range b.in.Spec.Order() {
		r := b.byTask[task]
		if r < 0 {
			continue
		}
		start := 0.0
		for _, e := range incoming[r] {
			from := b.index[e.From]
			start = math.Max(start, finish[from]+e.GiB*b.model.HoursPerGiB[at[from].place][at[r].place])
		}
		finish[r] = start + at[r].hours
		longest = math.Max(longest, finish[r])
	}
	return longest
}

// usd is what all of it costs, with what moves.
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

// onDemandUSD is what the work of a plan costs on demand: the less of what it costs in the plan's regions, and
// of what it costs where each task is cheapest, either with what moves then. Where time counts it is no slower than
// the plan: neither a task nor all of it.
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

// onDemand is the cheapest way to have a row's task done on demand, of the machines that suit it on either
// market; where time counts, no slower than the plan has it.
func (b *builder) onDemand(r int, as stay, samePlace bool) stay {
	i, best := b.rows[r].task, stay{usd: math.Inf(1)}
	nodes := float64(max(b.in.Spec.Tasks[i].Nodes, 1))
	for _, m := range b.rows[r].class.matches {
		work := b.work(i, m)
		if samePlace && m.place != as.place || b.timed() && work > as.hours {
			continue
		}
		if usd := work * m.onDemand * nodes; usd < best.usd {
			best = stay{m.place, work, usd}
		}
	}
	return best
}

// timed says whether time counts beside money.
func (b *builder) timed() bool {
	return b.model.Objective == optimizer.Makespan || b.model.DeadlineHours != nil
}

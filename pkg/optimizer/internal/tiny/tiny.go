// Package tiny draws placement problems that are small enough to enumerate all their plans. Tests compare the results
// of the methods with them.
package tiny

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// Shape describes the size and form of a problem.
type Shape struct {
	Tasks, Places int
	// PerPlace is the maximum number of options of a task at one place.
	PerPlace int
	// Edges is the share of the pairs of tasks that are connected.
	Edges float64
	// Rare is the share of the places at which a task has no option.
	Rare float64
	// Apart is the cost of moving a GiB within a place. If it is higher than between places, tasks fit badly
	// together, and bounds are far from the cost of the best plan.
	Apart float64
}

// Rand returns a random source that is determined by the seed.
func Rand(seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 1)) // #nosec G115 G404 -- for tests
}

// Draw draws a problem. All its numbers are small integers, so sums are exact and plans often tie.
func Draw(r *rand.Rand, s Shape) *problem.Instance {
	inst := &problem.Instance{NPlace: s.Places, First: []int32{0}}
	for _, i := range r.Perm(s.Tasks) {
		inst.Order = append(inst.Order, int32(i)) // #nosec G115 -- small
	}
	inst.Edges = problem.MergeParallel(links(r, s))
	inst.Topo = problem.Topological(s.Tasks, inst.Edges)
	inst.In = problem.Adjacent(s.Tasks, inst.Edges, func(e *problem.Link) int32 { return e.To })
	inst.Out = problem.Adjacent(s.Tasks, inst.Edges, func(e *problem.Link) int32 { return e.From })
	inst.USD, inst.USDT = perGiB(r, s)
	inst.Hrs, inst.HrsT = perGiB(r, s)
	for range s.Tasks {
		inst.Opts = append(inst.Opts, options(r, s)...)
		inst.First = append(inst.First, int32(len(inst.Opts))) // #nosec G115 -- small
	}
	inst.GroupByPlace()
	return inst
}

// links connects tasks along a random order of them. Some of the links are parallel, and some move no data.
func links(r *rand.Rand, s Shape) []problem.Link {
	rank := r.Perm(s.Tasks)
	var list []problem.Link
	for b := range s.Tasks {
		for a := range b {
			for r.Float64() < s.Edges {
				gib := float64(r.IntN(9))
				// #nosec G115 -- small
				list = append(list, problem.Link{From: int32(rank[a]), To: int32(rank[b]), SumGiB: gib, MaxGiB: gib})
				if r.IntN(4) > 0 {
					break
				}
			}
		}
	}
	return list
}

// perGiB returns a matrix over the places and its transpose.
func perGiB(r *rand.Rand, s Shape) (of, transposed []float64) {
	n := s.Places
	of, transposed = make([]float64, n*n), make([]float64, n*n)
	for i := range n {
		for j := range n {
			x := s.Apart
			if i != j {
				x = float64(r.IntN(6))
			}
			of[i*n+j], transposed[j*n+i] = x, x
		}
	}
	return of, transposed
}

// options returns the options of one task, at least one: at each place from the cheapest and slowest to the most
// expensive and fastest.
func options(r *rand.Rand, s Shape) []problem.Option {
	var list []problem.Option
	for len(list) == 0 {
		for p := range s.Places {
			if r.Float64() < s.Rare {
				continue
			}
			usd, hours := r.IntN(12), 8+r.IntN(12)
			for range 1 + r.IntN(s.PerPlace) {
				// #nosec G115 -- small
				list = append(list, problem.Option{
					Place: int32(p), Cand: int32(len(list)), USD: float64(usd), Hours: float64(hours),
				})
				if usd, hours = usd+1+r.IntN(6), hours-1-r.IntN(6); hours < 0 {
					break
				}
			}
		}
	}
	return list
}

// Each calls try for every plan of the options that alive marks (nil means all), with its cost and its makespan.
func Each(inst *problem.Instance, alive []bool, try func(p problem.Plan, usd, hours float64)) {
	p := make(problem.Plan, inst.NTask())
	var choose func(t int)
	choose = func(t int) {
		if t == len(p) {
			usd, hours := Evaluate(inst, p)
			try(p, usd, hours)
			return
		}
		for o := inst.First[t]; o < inst.First[t+1]; o++ {
			if alive == nil || alive[o] {
				p[t] = o - inst.First[t]
				choose(t + 1)
			}
		}
	}
	choose(0)
}

// Evaluate returns the cost and the makespan of a plan, directly from the definitions.
func Evaluate(inst *problem.Instance, p problem.Plan) (usd, hours float64) {
	option := func(t int32) *problem.Option { return &inst.Opts[inst.First[t]+p[t]] }
	ends := make([]float64, len(p))
	for t := range p {
		o := option(int32(t)) // #nosec G115 -- small
		usd, ends[t] = usd+o.USD, o.Hours
	}
	// A task ends no earlier than its inputs arrive plus its run time. Repeat until all times are late enough.
	for changed := true; changed; {
		changed = false
		for i := range inst.Edges {
			e := &inst.Edges[i]
			from, to := option(e.From), option(e.To)
			moved := int(from.Place)*inst.NPlace + int(to.Place)
			if end := ends[e.From] + e.MaxGiB*inst.Hrs[moved] + to.Hours; end > ends[e.To] {
				ends[e.To], changed = end, true
			}
		}
	}
	for i := range inst.Edges {
		e := &inst.Edges[i]
		usd += e.SumGiB * inst.USD[int(option(e.From).Place)*inst.NPlace+int(option(e.To).Place)]
	}
	return usd, max(0, slices.Max(ends))
}

// StepsNear reports whether a number of steps is as expected, within a relative tolerance. It is always true on other
// platforms than amd64: where the compiler fuses multiplications and additions, ties are decided differently.
func StepsNear(steps, want int64, within float64) bool {
	return runtime.GOARCH != "amd64" || math.Abs(float64(steps-want)) <= within*float64(want)
}

// Cheapest returns the minimum cost of the plans that end within the given hours, or +Inf if there are none.
func Cheapest(inst *problem.Instance, within float64) float64 {
	least := math.Inf(1)
	Each(inst, nil, func(_ problem.Plan, usd, hours float64) {
		if hours <= within {
			least = min(least, usd)
		}
	})
	return least
}

// Fastest returns the minimum makespan of the plans that cost at most the budget, or +Inf if there are none.
func Fastest(inst *problem.Instance, budget float64) float64 {
	least := math.Inf(1)
	Each(inst, nil, func(_ problem.Plan, usd, hours float64) {
		if usd <= budget {
			least = min(least, hours)
		}
	})
	return least
}

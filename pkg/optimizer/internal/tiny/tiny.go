// Package tiny draws placement problems that are small enough to try every plan of them, with which tests of the
// methods compare what these find.
package tiny

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// Shape says how large a problem is.
type Shape struct {
	Tasks, Places int
	// PerPlace is how many options a task has at one place at most.
	PerPlace int
	// Edges is the part of the pairs of tasks that are joined.
	Edges float64
	// Rare is the part of the places at which a task has no option.
	Rare float64
	// Apart is what moving a GiB within a place costs: where it is more than between places, tasks fit badly
	// together, and bounds are far from what the best plan costs.
	Apart float64
}

// Rand is a source of numbers that is the same for the same seed.
func Rand(seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), 1)) // #nosec G115 G404 -- a test's
}

// Draw draws a problem. All its numbers are whole and small, so sums of them are exact and plans often tie.
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

// links joins tasks along a random order of them; some of the links are parallel, some move nothing.
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

// perGiB is a matrix over the places, and the same transposed.
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

// options are those of one task, at least one: at each place from the cheapest and slowest to the dearest and
// fastest.
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

// Each tries every plan of the options that alive marks, or of all where it is nil: what it costs, and when it ends.
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

// Evaluate says what a plan costs and when its last task ends, from nothing but the definitions.
func Evaluate(inst *problem.Instance, p problem.Plan) (usd, hours float64) {
	option := func(t int32) *problem.Option { return &inst.Opts[inst.First[t]+p[t]] }
	ends := make([]float64, len(p))
	for t := range p {
		o := option(int32(t)) // #nosec G115 -- small
		usd, ends[t] = usd+o.USD, o.Hours
	}
	// no task ends before what it needs has come and it has run: again and again, until all are late enough
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

// Took says whether a number of steps is what is expected, within a part of it. It is always true but on amd64: where
// the compiler fuses multiplications and additions, ties fall another way.
func Took(steps, want int64, within float64) bool {
	return runtime.GOARCH != "amd64" || math.Abs(float64(steps-want)) <= within*float64(want)
}

// Cheapest is the least cost of the plans that end within the given hours, +Inf where there is none.
func Cheapest(inst *problem.Instance, within float64) float64 {
	least := math.Inf(1)
	Each(inst, nil, func(_ problem.Plan, usd, hours float64) {
		if hours <= within {
			least = min(least, usd)
		}
	})
	return least
}

// Fastest is the least time of the plans that cost no more than so much, +Inf where there is none.
func Fastest(inst *problem.Instance, budget float64) float64 {
	least := math.Inf(1)
	Each(inst, nil, func(_ problem.Plan, usd, hours float64) {
		if usd <= budget {
			least = min(least, hours)
		}
	})
	return least
}

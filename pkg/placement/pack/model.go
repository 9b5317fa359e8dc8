package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/placement/energy"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// model is a problem in the form that the search uses: vectors of 32-bit integers with the points that fill up first
// at the front, so that misfits are detected early, and short feature vectors for scores.
type model struct {
	dims        int
	margin      bool    // some demands are increased by the safety margin
	need        []int32 // of each app, dims long
	capacity    []int32 // of each shape, dims long
	shape       []int32 // of each machine; machines are in the order of their use
	machine     []int32 // the problem's number of each machine
	app         []int32 // of each instance
	ordered     []int32 // apps with instances, hardest to place first
	instancesOf [][]int32
	size        []float32 // of an app: the square root of its energy on an empty machine of the first shape

	features energy.Features
	limits   *placement.Limits
}

// newModel converts a problem. With strict, demands without an exact binary fraction are increased a little, so that
// a check that adds them in floating point finds no machine over its capacity.
func newModel(p *placement.Problem, strict bool) *model {
	m := &model{
		app:         make([]int32, len(p.Instances)),
		instancesOf: make([][]int32, len(p.Apps)),
		limits:      placement.NewLimits(p),
	}
	for i, in := range p.Instances {
		m.app[i] = in.App
		m.instancesOf[in.App] = append(m.instancesOf[in.App], int32(i)) //nolint:gosec // rows in memory
	}
	pool := p.EnergyPool()
	m.vectors(p, pool, strict)
	m.features = pool.Describe()
	m.machine = pool.Order(func(i int32) int { return p.Machines[i].Shape }, len(p.Machines))
	for _, i := range m.machine {
		m.shape = append(m.shape, int32(p.Machines[i].Shape)) //nolint:gosec // rows in memory
	}
	m.rank()
	return m
}

// vectors scales each resource to 32 bits, exactly if possible, and puts the most important points at the front.
func (m *model) vectors(p *placement.Problem, pool *energy.Pool, strict bool) {
	perm := hottest(p, pool.Total(), pool.Has())
	m.dims = len(perm)
	m.need = make([]int32, len(p.Apps)*m.dims)
	m.capacity = make([]int32, len(p.Shapes)*m.dims)
	scales := make([]scale, 0, p.Dims())
	begin := 0
	for _, r := range p.Resources {
		s := scaleOf(p, begin, begin+r.Points, strict)
		m.margin = m.margin || s.strict
		for range r.Points {
			scales = append(scales, s)
		}
		begin += r.Points
	}
	for a, app := range p.Apps {
		for i, d := range perm {
			m.need[a*m.dims+i] = scales[d].demand(app.Demand[d])
		}
	}
	for s, shape := range p.Shapes {
		for i, d := range perm {
			scaled := min(shape.Capacity[d]/scales[d].unit, maxScaled)
			m.capacity[s*m.dims+i] = int32(scaled) //nolint:gosec // limited by maxScaled
		}
	}
}

// maxScaled is the largest scaled number. A sum of three of them does not overflow.
const maxScaled = 1 << 29

// scale is the conversion of one resource to 32 bits.
type scale struct {
	unit   int64 // parts of placement.Unit
	strict bool
}

// fractionOf divides a number of parts if and only if it has an exact binary fraction.
const fractionOf = 5 * 5 * 5 * 5 * 5 * 5 * 5 * 5 * 5

func (s scale) demand(x int64) int32 {
	n := (x + s.unit - 1) / s.unit
	if s.strict && x%fractionOf != 0 {
		n++
	}
	return int32(min(n, maxScaled+1)) //nolint:gosec // at most maxScaled + 1
}

// scaleOf returns the coarsest unit in which the points [begin, end) are exact, or the finest that fits 32 bits.
func scaleOf(p *placement.Problem, begin, end int, strict bool) scale {
	const margin = placement.Unit / 1_000_000
	unit, largest, fractions := int64(0), int64(1), false
	for _, a := range p.Apps {
		for _, x := range a.Demand[begin:end] {
			unit = gcd(x, unit)
			fractions = fractions || x%fractionOf != 0
		}
	}
	for _, s := range p.Shapes {
		for _, x := range s.Capacity[begin:end] {
			unit, largest = gcd(x, unit), max(largest, x)
		}
	}
	unit = max(unit, 1)
	if strict && fractions {
		unit = gcd(unit, margin)
	}
	for largest/unit > maxScaled {
		unit *= 10
	}
	return scale{unit: unit, strict: strict && fractions}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// hottest orders the points: first the fullest of each stretch of each resource, then the others, fullest first. It
// leaves out points without demand.
func hottest(p *placement.Problem, total, has []float64) []int {
	const stretch = 7
	full := func(d int) float64 {
		if has[d] == 0 {
			return math.Inf(1)
		}
		return total[d] / has[d]
	}
	var front, back []int
	begin := 0
	for _, r := range p.Resources {
		for at := begin; at < begin+r.Points; at += stretch {
			best := at
			for d := at; d < min(at+stretch, begin+r.Points); d++ {
				if full(d) > full(best) {
					best = d
				}
			}
			for d := at; d < min(at+stretch, begin+r.Points); d++ {
				if total[d] == 0 {
					continue
				}
				if d == best {
					front = append(front, d)
				} else {
					back = append(back, d)
				}
			}
		}
		begin += r.Points
	}
	fuller := func(a, b int) int { return cmp.Or(cmp.Compare(full(b), full(a)), cmp.Compare(a, b)) }
	slices.SortFunc(front, fuller)
	slices.SortFunc(back, fuller)
	return append(front, back...)
}

// rank sorts apps by how hard they are to place: their size, plus the share of instances that their rules exclude. An
// app that excludes many instances must be placed early, because later it finds one of them on every machine.
func (m *model) rank() {
	m.size = make([]float32, len(m.instancesOf))
	for a, instances := range m.instancesOf {
		if len(m.shape) > 0 {
			m.size[a] = float32(math.Sqrt(float64(m.square(int32(a), m.shape[0])))) //nolint:gosec // rows in memory
		}
		if len(instances) > 0 {
			m.ordered = append(m.ordered, int32(a)) //nolint:gosec // rows in memory
		}
	}
	rank := make([]float32, len(m.instancesOf))
	for a := range m.instancesOf {
		blocked := 0
		for _, p := range m.limits.Partners[a] {
			blocked += len(m.instancesOf[p.App])
		}
		rank[a] = m.size[a] + float32(blocked)/float32(max(1, len(m.app)))
	}
	slices.SortStableFunc(m.ordered, func(a, b int32) int { return cmp.Compare(rank[b], rank[a]) })
}

// square returns the energy of a single instance on a machine of a shape.
func (m *model) square(a, shape int32) float32 {
	f, w := m.features.Of(a), m.features.For(shape)
	s := float32(0)
	for i, x := range f {
		s += w[i] * x * x
	}
	return s
}

func (m *model) needOf(a int32) []int32 { return energy.Row(m.need, a, m.dims) }

func (m *model) capacityOf(shape int32) []int32 { return energy.Row(m.capacity, shape, m.dims) }

package pack

import (
	"cmp"
	"math"
	"slices"

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

	features int
	feature  []float32 // of each app, features long
	weight   []float32 // of each shape, features long

	limits *placement.Limits
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
	total := demands(p)
	m.vectors(p, total, strict)
	m.describe(p, total)
	m.order(p, total)
	m.rank()
	return m
}

// demands returns the total demand of all instances at each point.
func demands(p *placement.Problem) []float64 {
	n := make([]float64, len(p.Apps))
	for _, in := range p.Instances {
		n[in.App]++
	}
	total := make([]float64, p.Dims())
	for a, app := range p.Apps {
		for d, x := range app.Demand {
			total[d] += n[a] * float64(x)
		}
	}
	return total
}

// capacities returns the total capacity of all machines at each point.
func capacities(p *placement.Problem) []float64 {
	n := make([]float64, len(p.Shapes))
	for _, m := range p.Machines {
		n[m.Shape]++
	}
	total := make([]float64, p.Dims())
	for s, shape := range p.Shapes {
		for d, x := range shape.Capacity {
			total[d] += n[s] * float64(x)
		}
	}
	return total
}

// vectors scales each resource to 32 bits, exactly if possible, and puts the most important points at the front.
func (m *model) vectors(p *placement.Problem, total []float64, strict bool) {
	perm := hottest(p, total)
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
	return int32(min(n, maxScaled+1)) //nolint:gosec // at most most + 1
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
func hottest(p *placement.Problem, total []float64) []int {
	const stretch = 7
	has := capacities(p)
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

// stretches is the number of features of a curve.
const stretches = 14

// describe computes the features: the means of the stretches of each curve.
func (m *model) describe(p *placement.Problem, total []float64) {
	type span struct{ begin, end, of int }
	var spans []span
	begin := 0
	for _, r := range p.Resources {
		parts := min(stretches, r.Points)
		for i := range parts {
			spans = append(spans, span{begin + i*r.Points/parts, begin + (i+1)*r.Points/parts, parts})
		}
		begin += r.Points
	}
	spans = slices.DeleteFunc(spans, func(s span) bool {
		return !slices.ContainsFunc(total[s.begin:s.end], func(x float64) bool { return x > 0 })
	})
	has := capacities(p)
	m.features = len(spans)
	m.feature = make([]float32, len(p.Apps)*m.features)
	m.weight = make([]float32, len(p.Shapes)*m.features)
	fullest := 0.0
	fill := make([]float64, len(spans))
	for i, s := range spans {
		for d := s.begin; d < s.end; d++ {
			if has[d] > 0 {
				fill[i] = max(fill[i], total[d]/has[d])
			}
		}
		fullest = max(fullest, fill[i])
	}
	for i, s := range spans {
		n := float64(s.end - s.begin)
		for a, app := range p.Apps {
			m.feature[a*m.features+i] = float32(sum(app.Demand[s.begin:s.end]) / n / placement.Unit)
		}
		// Resources that fill up first matter most. A plentiful resource need not be level.
		w := math.Pow(fill[i]/fullest, emphasis) / float64(s.of)
		for j, shape := range p.Shapes {
			c := sum(shape.Capacity[s.begin:s.end]) / n / placement.Unit
			m.weight[j*m.features+i] = float32(w / max(c*c, 1e-9))
		}
	}
}

// emphasis is the exponent of a feature's fill in its weight.
const emphasis = 4

func sum(v []int64) float64 {
	s := 0.0
	for _, x := range v {
		s += float64(x)
	}
	return s
}

// order sorts the machines, those with most of the scarce resources first.
func (m *model) order(p *placement.Problem, total []float64) {
	worth := make([]float64, len(p.Shapes))
	fullest, has := 0.0, capacities(p)
	for d, t := range total {
		if has[d] > 0 {
			fullest = max(fullest, t/has[d])
		}
	}
	for s, shape := range p.Shapes {
		for d, x := range shape.Capacity {
			if has[d] > 0 && total[d] > 0 {
				worth[s] += math.Pow(total[d]/has[d]/fullest, emphasis) * float64(x) / has[d]
			}
		}
	}
	for i := range p.Machines {
		m.machine = append(m.machine, int32(i)) //nolint:gosec // rows in memory
	}
	slices.SortStableFunc(m.machine, func(a, b int32) int {
		return cmp.Compare(worth[p.Machines[b].Shape], worth[p.Machines[a].Shape])
	})
	for _, i := range m.machine {
		m.shape = append(m.shape, int32(p.Machines[i].Shape)) //nolint:gosec // rows in memory
	}
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
	f, w := m.featuresOf(a), m.weightsOf(shape)
	s := float32(0)
	for i, x := range f {
		s += w[i] * x * x
	}
	return s
}

func (m *model) featuresOf(a int32) []float32 { return row(m.feature, a, m.features) }

func (m *model) weightsOf(shape int32) []float32 { return row(m.weight, shape, m.features) }

func (m *model) needOf(a int32) []int32 { return row(m.need, a, m.dims) }

func (m *model) capacityOf(shape int32) []int32 { return row(m.capacity, shape, m.dims) }

// row returns row i of a matrix with n columns, stored by rows.
func row[T any](rows []T, i int32, n int) []T { return rows[int(i)*n : int(i+1)*n : int(i+1)*n] }

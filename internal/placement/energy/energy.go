// Package energy measures how full and how level machines are: the energy of an assignment is the sum over machines and
// features of the squared level of the feature, relative to the machine's capacity, times its weight. Features are
// means of stretches of the demand curves. An instance that goes where it raises the energy least keeps the machines
// level in the scarce resources, so that few machines hold all instances.
package energy

import (
	"cmp"
	"math"
	"slices"
)

// Pool is the machines and the demand of a placement problem. Vectors have the points of all resources, one resource
// after the other.
type Pool struct {
	Points    []int     // of each resource
	Capacity  [][]int64 // of each shape of machine
	Machines  []int     // number of machines of each shape
	Demand    [][]int64 // of an instance of each app
	Instances []int     // number of instances of each app
	Unit      float64   // parts of a resource's unit in the vectors
}

// Total is the demand of all instances at each point.
func (p *Pool) Total() []float64 { return sumOf(p.Demand, p.Instances, p.Points) }

// Has is the capacity of all machines at each point.
func (p *Pool) Has() []float64 { return sumOf(p.Capacity, p.Machines, p.Points) }

func sumOf(vectors [][]int64, counts, points []int) []float64 {
	dims := 0
	for _, n := range points {
		dims += n
	}
	total := make([]float64, dims)
	for i, v := range vectors {
		for d, x := range v {
			total[d] += float64(counts[i]) * float64(x)
		}
	}
	return total
}

// Features are the short vectors of apps and the weights of shapes, N numbers each.
type Features struct {
	N      int
	App    []float32 // of each app
	Weight []float32 // of each shape
}

// Of returns the features of an app.
func (f *Features) Of(app int32) []float32 { return Row(f.App, app, f.N) }

// For returns the weights of a shape.
func (f *Features) For(shape int32) []float32 { return Row(f.Weight, shape, f.N) }

// Row returns row i of a matrix with n columns, stored by rows.
func Row[T any](rows []T, i int32, n int) []T { return rows[int(i)*n : int(i+1)*n : int(i+1)*n] }

// stretches is the number of features of a curve.
const stretches = 14

// emphasis is the exponent of a feature's fill in its weight.
const emphasis = 4

// Describe computes the features: the means of the stretches of each curve that has any demand.
func (p *Pool) Describe() Features {
	type span struct{ begin, end, of int }
	var spans []span
	begin := 0
	for _, points := range p.Points {
		parts := min(stretches, points)
		for i := range parts {
			spans = append(spans, span{begin + i*points/parts, begin + (i+1)*points/parts, parts})
		}
		begin += points
	}
	total, has := p.Total(), p.Has()
	spans = slices.DeleteFunc(spans, func(s span) bool {
		return !slices.ContainsFunc(total[s.begin:s.end], func(x float64) bool { return x > 0 })
	})
	f := Features{N: len(spans), App: make([]float32, len(p.Demand)*len(spans)),
		Weight: make([]float32, len(p.Capacity)*len(spans))}
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
		for a, demand := range p.Demand {
			f.App[a*f.N+i] = float32(sum(demand[s.begin:s.end]) / n / p.Unit)
		}
		// Resources that fill up first matter most. A plentiful resource need not be level.
		w := math.Pow(fill[i]/fullest, emphasis) / float64(s.of)
		for j, capacity := range p.Capacity {
			c := sum(capacity[s.begin:s.end]) / n / p.Unit
			f.Weight[j*f.N+i] = float32(w / max(c*c, 1e-9))
		}
	}
	return f
}

func sum(v []int64) float64 {
	s := 0.0
	for _, x := range v {
		s += float64(x)
	}
	return s
}

// Order sorts machines, those with most of the scarce resources first; shape is the shape of each machine.
func (p *Pool) Order(shape func(machine int32) int, machines int) []int32 {
	worth := make([]float64, len(p.Capacity))
	fullest, total, has := 0.0, p.Total(), p.Has()
	for d, t := range total {
		if has[d] > 0 {
			fullest = max(fullest, t/has[d])
		}
	}
	for s, capacity := range p.Capacity {
		for d, x := range capacity {
			if has[d] > 0 && total[d] > 0 {
				worth[s] += math.Pow(total[d]/has[d]/fullest, emphasis) * float64(x) / has[d]
			}
		}
	}
	order := make([]int32, machines)
	for i := range order {
		order[i] = int32(i) //nolint:gosec // rows in memory
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(worth[shape(b)], worth[shape(a)]) })
	return order
}

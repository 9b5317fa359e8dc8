package search

import "math"

// Inf marks excluded values and bounds that nothing satisfies.
var Inf = math.Inf(1)

// Precision is the relative difference below which two objectives are equal. It is ten times finer than Optimal
// promises.
const Precision = 1e-10

// CutBelow returns the objective below which a plan is worth finding if the best one has the given objective (+Inf
// for none).
func CutBelow(objective float64) float64 {
	if objective == Inf {
		return Inf
	}
	return objective - Precision*objective
}

// Beyond returns the cost or makespan from which on a plan breaks the given limit. A limit may be exceeded by
// rounding errors.
func Beyond(limit float64) float64 { return limit + 1e-9*limit + 1e-12 }

// Grow returns buf with n entries. Their values are undefined.
func Grow(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n, n+n/2)
	}
	return buf[:n]
}

package search

import "math"

// Inf marks what is ruled out, and a bound that nothing keeps.
var Inf = math.Inf(1)

// Precision is the relative difference below which two objectives count as
// equal: ten times finer than what Optimal promises.
const Precision = 1e-10

// CutBelow is the objective below which a plan is worth finding when the best
// one has the given objective, +Inf for none.
func CutBelow(objective float64) float64 {
	if objective == Inf {
		return Inf
	}
	return objective - Precision*objective
}

// Beyond is the cost or makespan from which on a plan breaks the given bound: a
// bound may be exceeded by no more than rounding can explain.
func Beyond(limit float64) float64 { return limit + 1e-9*limit + 1e-12 }

// Grow is buf with n entries, whose values are of no meaning.
func Grow(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n, n+n/2)
	}
	return buf[:n]
}

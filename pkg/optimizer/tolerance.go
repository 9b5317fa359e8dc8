package optimizer

import "math"

// inf marks what is ruled out, and a bound that nothing keeps.
var inf = math.Inf(1)

// precision is the relative difference below which two objectives count as
// equal: ten times finer than what Optimal promises.
const precision = 1e-10

// cutBelow is the objective below which a plan is worth finding when the best
// one has the given objective, +Inf for none.
func cutBelow(objective float64) float64 {
	if objective == inf {
		return inf
	}
	return objective - precision*objective
}

// beyond is the cost or makespan from which on a plan breaks the given bound: a
// bound may be exceeded by no more than rounding can explain.
func beyond(limit float64) float64 { return limit + 1e-9*limit + 1e-12 }

// grow is buf with n entries, whose values are of no meaning.
func grow(buf []float64, n int) []float64 {
	if cap(buf) < n {
		return make([]float64, n, n+n/2)
	}
	return buf[:n]
}

package windtunnel

import "math"

// taken returns how many slots of each grade a scheduler takes if it takes k of the free slots, best grade first.
// Each is the best of the given number of randomly drawn candidates; with 0 candidates it is the best of all.
func taken(k float64, free []float64, candidates int) []float64 {
	out := make([]float64, len(free))
	all := 0.0
	for _, s := range free {
		all += s
	}
	rest, left := all, k
	for i, s := range free {
		if candidates <= 0 {
			out[i] = min(left, s)
			left -= out[i]
			continue
		}
		before := math.Pow(rest/all, float64(candidates)) // probability that no candidate is of a better grade
		rest = max(rest-s, 0)
		out[i] = min(k*(before-math.Pow(rest/all, float64(candidates))), s)
	}
	return out
}

// grade is a range of scores that schedulers treat as equal.
type grade struct {
	Score float64 // mean of its slots
	Share float64 // of all slots
}

const (
	gradeWidth = 0.05 // of score
	maxGrades  = 64
	gradesSpan = 6 // standard deviations: covers almost all slots
)

// gradesOf divides normally distributed scores (mean 1, given variance) into grades, best first.
func gradesOf(variance float64) []grade {
	sd := math.Sqrt(max(variance, 0))
	width := math.Max(gradeWidth, gradesSpan*sd/maxGrades)
	n := max(int(math.Ceil(gradesSpan*sd/width)), 1)
	if n == 1 {
		return []grade{{Score: 1, Share: 1}}
	}
	out := make([]grade, n)
	high := 1 + float64(n)*width/2
	for i := range out {
		from, to := high-float64(i+1)*width, high-float64(i)*width
		below, above := normal((from-1)/sd), normal((to-1)/sd)
		if i == 0 {
			above = 1
		}
		if i == n-1 {
			below = 0
		}
		out[i] = grade{Score: (from + to) / 2, Share: above - below}
	}
	return out
}

// normal is the standard normal distribution function.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

package parsync

import (
	"math"
	"time"
)

// Model is the setting in which conflicts are expected (ATC '21, §3).
type Model struct {
	Schedulers int     // N, each with a view of its own
	FreeSlots  float64 // S: slots free when a view is refreshed
	// Rate is how many tasks all schedulers together try to place in a second (N·K of a gap), tries after a
	// conflict included.
	Rate float64
	Gap  time.Duration // G: from one refresh of a slot's state to the next, by one scheduler
	// ScoreVariance is V, of the slots' scores about a mean of 1: every scheduler prefers better slots, so they meet at
	// the best. 0 makes all slots equal.
	ScoreVariance float64
	// Candidates is how many slots are drawn for a task, the best of which is taken; 0 is all there are.
	Candidates int
}

// Conflicts returns how many tasks are expected to be placed in vain in one gap. Each of N schedulers takes K slots, none
// twice, without seeing the others; on each of S slots that is an expectation of N·K/S − 1 + (1 − K/S)^N (E[Yi],
// ATC '21, §3), summed here over grades of slots, the better of which are preferred.
func (m Model) Conflicts() float64 {
	grades := Grades(m.ScoreVariance)
	free := make([]float64, len(grades))
	for i, g := range grades {
		free[i] = g.Share * m.FreeSlots
	}
	k := m.Rate * m.Gap.Seconds() / float64(m.Schedulers)
	return GradedConflicts(m.Schedulers, Taken(k, free, m.Candidates), free)
}

// Taken returns how many slots of each grade a scheduler takes that takes k of those free, the best first, each
// the best of so many candidates drawn at random; with 0 candidates the best of all.
func Taken(k float64, free []float64, candidates int) []float64 {
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
		before := math.Pow(rest/all, float64(candidates)) // none of the candidates is better
		rest = max(rest-s, 0)
		out[i] = min(k*(before-math.Pow(rest/all, float64(candidates))), s)
	}
	return out
}

// GradedConflicts is the expectation where each scheduler takes so many of the free slots of each grade.
func GradedConflicts(schedulers int, taken, free []float64) float64 {
	n, sum := float64(schedulers), 0.0
	for i, s := range free {
		if s > 0 {
			q := min(taken[i]/s, 1)
			sum += s * (n*q - 1 + math.Pow(1-q, n))
		}
	}
	return sum
}

// Grade is a range of scores that schedulers do not tell apart.
type Grade struct {
	Score float64 // the mean of its slots
	Share float64 // of all slots
}

const (
	gradeWidth = 0.05 // of score
	gradesMost = 64
	gradesSpan = 6 // standard deviations: almost all slots
)

// Grades divides scores that are normal about 1 with a variance into grades, the best first.
func Grades(variance float64) []Grade {
	sd := math.Sqrt(max(variance, 0))
	width := math.Max(gradeWidth, gradesSpan*sd/gradesMost)
	n := max(int(math.Ceil(gradesSpan*sd/width)), 1)
	if n == 1 {
		return []Grade{{Score: 1, Share: 1}}
	}
	out := make([]Grade, n)
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
		out[i] = Grade{Score: (from + to) / 2, Share: above - below}
	}
	return out
}

// normal is the standard normal distribution function.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

package scheduler

import (
	"math"
	"time"
)

// Usage is the use of a queue or namespace over time: an exponentially decaying mean that halves after each half-life,
// in the units of vectors. It gives fairness over time (Volcano, "fairness over time"; the idea is HTCondor's): an
// owner that has held much gets less now.
type Usage struct {
	At   time.Time
	Held [maxResources]float64
}

// Advance returns the usage at a later time, if held was held in between.
func (u Usage) Advance(now time.Time, held Vector, halfLife time.Duration) Usage {
	if !now.After(u.At) || halfLife <= 0 {
		return u
	}
	keep := 0.0
	if !u.At.IsZero() {
		keep = math.Exp2(-float64(now.Sub(u.At)) / float64(halfLife))
	}
	out := Usage{At: now}
	for i := range out.Held {
		out.Held[i] = u.Held[i]*keep + float64(held[i])*(1-keep)
		if u.At.IsZero() {
			out.Held[i] = 0 // the time before is unknown
		}
	}
	return out
}

package cluster

import (
	"math"
	"time"
)

// Usage is what a queue or namespace held over time: a mean in which what was counts half after each half-life, in the
// units of vectors. It makes fairness over time of fairness of the moment (Volcano, "fairness over time"; the idea is
// HTCondor's): who had much has less now.
type Usage struct {
	At   time.Time
	Held [MaxResources]float64
}

// Advance is the usage at a later time, with held in between.
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
			out.Held[i] = 0 // nothing is known of before
		}
	}
	return out
}

package scheduler

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

// usage orders queues and namespaces by what they hold and have held, by weight.
type usage struct{ halfLife time.Duration }

func newUsage(a Args) Plugin { return usage{a.Duration("halfLife", 24*time.Hour)} }

func (p usage) Open(s *Session) {
	past := func(u *Usage) float64 {
		most := 0.0
		for i, x := range u.Held {
			if s.Total[i] > 0 {
				most = max(most, x/float64(s.Total[i]))
			}
		}
		if s.Now.After(u.At) {
			most *= math.Exp2(-float64(s.Now.Sub(u.At)) / float64(p.halfLife))
		}
		return most
	}
	queues, namespaces := make([]float64, len(s.Queues)), make([]float64, len(s.Namespaces))
	for i, q := range s.Queues {
		queues[i] = past(&q.Queue.Usage)
	}
	for i, n := range s.Namespaces {
		namespaces[i] = past(&n.Namespace.Usage)
	}
	s.OrderQueues(func(a, b *QueueInfo) int {
		return compareFloats((queues[a.Index]+share(&a.Allocated, &s.Total))/weight(a.Queue.Weight),
			(queues[b.Index]+share(&b.Allocated, &s.Total))/weight(b.Queue.Weight))
	})
	s.OrderNamespaces(func(a, b *NamespaceInfo) int {
		return compareFloats((namespaces[a.Index]+share(&a.Allocated, &s.Total))/weight(a.Namespace.Weight),
			(namespaces[b.Index]+share(&b.Allocated, &s.Total))/weight(b.Namespace.Weight))
	})
}

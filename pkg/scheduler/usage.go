package scheduler

import (
	"cmp"
	"math"
	"time"
)

// usage orders queues and namespaces by their current plus their past usage, divided by weight.
type usage struct{ halfLife time.Duration }

// DefaultHalfLife is the half-life of past usage if the policy sets none.
const DefaultHalfLife = 24 * time.Hour

func newUsage(a Args) Plugin { return usage{a.Duration("halfLife", DefaultHalfLife)} }

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
		return cmp.Compare((queues[a.Index]+Share(&a.Allocated, &s.Total))/weight(a.Queue.Weight),
			(queues[b.Index]+Share(&b.Allocated, &s.Total))/weight(b.Queue.Weight))
	})
	s.OrderNamespaces(func(a, b *NamespaceInfo) int {
		return cmp.Compare((namespaces[a.Index]+Share(&a.Allocated, &s.Total))/weight(a.Namespace.Weight),
			(namespaces[b.Index]+Share(&b.Allocated, &s.Total))/weight(b.Namespace.Weight))
	})
}

package timeline

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Random is a random source. Each part of a world has a separate one, so that a change in the draws of one part does
// not affect the others. A steady source always draws the middle of the range, so that stories are predictable.
type Random struct {
	*rand.Rand
	Steady bool
}

// NewRandom returns the source of a part of a world.
func NewRandom(seed uint64, part string) Random {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part)) // never fails
	source := rand.NewPCG(seed, h.Sum64())
	return Random{Rand: rand.New(source)} //nolint:gosec // a history must replay from its seed
}

// share draws evenly from [0, 1).
func (r Random) share() float64 {
	if r.Steady {
		return 0.5
	}
	return r.Float64()
}

// Chance is true with probability p.
func (r Random) Chance(p float64) bool { return p > 0 && r.Float64() < p }

// Between draws evenly from [lo, hi).
func (r Random) Between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.share()*float64(hi-lo))
}

// Uniform draws evenly from [lo, hi).
func (r Random) Uniform(lo, hi float64) float64 { return lo + (hi-lo)*r.share() }

// Spread draws from [lo, hi) so that each power of ten is as likely as the next.
func (r Random) Spread(lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Exp(r.share()*math.Log(float64(hi)/float64(lo))))
}

// Span draws from an exponential distribution.
func (r Random) Span(mean time.Duration) time.Duration {
	if r.Steady {
		return mean
	}
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// Pick draws an element.
func Pick[T any](r Random, list []T) T { return list[r.IntN(len(list))] }

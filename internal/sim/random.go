package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// random is a source of chance. Each part of a world has one of its own, so that a change in what one part
// draws leaves the others as they were. A steady one draws the middle of what it is asked for, so that a
// story can be told in advance.
type random struct {
	*rand.Rand
	steady bool
}

func newRandom(seed uint64, part string) random {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part)) // never fails
	source := rand.NewPCG(seed, h.Sum64())
	return random{Rand: rand.New(source)} //nolint:gosec // a history must replay from its seed
}

// share draws evenly from [0, 1).
func (r random) share() float64 {
	if r.steady {
		return 0.5
	}
	return r.Float64()
}

// chance is true with probability p.
func (r random) chance(p float64) bool { return p > 0 && r.Float64() < p }

// between draws evenly from [lo, hi).
func (r random) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.share()*float64(hi-lo))
}

// uniform draws evenly from [lo, hi).
func (r random) uniform(lo, hi float64) float64 { return lo + (hi-lo)*r.share() }

// spread draws from [lo, hi) so that each power of ten is as likely as the next.
func (r random) spread(lo, hi time.Duration) time.Duration {
	return time.Duration(float64(lo) * math.Exp(r.share()*math.Log(float64(hi)/float64(lo))))
}

// span draws from an exponential distribution.
func (r random) span(mean time.Duration) time.Duration {
	if r.steady {
		return mean
	}
	return time.Duration(r.ExpFloat64() * float64(mean))
}

// pick draws an element.
func pick[T any](r random, list []T) T { return list[r.IntN(len(list))] }

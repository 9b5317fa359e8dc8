package policy

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Zones has the observations of the zones that a run may use.
type Zones struct {
	Each []market.Availability
	// Any is the availability of the zones together: whether at least one has machines.
	Any market.Availability
}

// NewZones returns n zones without observations.
func NewZones(n int, halfLife time.Duration) *Zones {
	z := &Zones{Each: make([]market.Availability, n)}
	z.Any.HalfLife = halfLife
	for i := range z.Each {
		z.Each[i].HalfLife = halfLife
	}
	return z
}

// Clone returns a copy that learns independently.
func (z *Zones) Clone() *Zones {
	c := *z
	c.Each = slices.Clone(z.Each)
	return &c
}

// Observe records which zones had machines for a span of time.
func (z *Zones) Observe(up []bool, span time.Duration) {
	some := false
	for i, u := range up {
		z.Each[i].Observe(u, span)
		some = some || u
	}
	z.Any.Observe(some, span)
}

// steadiest returns the zone with machines that is expected to keep them longest, by the sum of its current and its
// mean rate of losses; −1 if no zone has machines.
func (z *Zones) steadiest(up []bool) int {
	best, least := -1, 0.0
	for i, u := range up {
		if !u {
			continue
		}
		_, age, _ := z.Each[i].Now()
		if rate := z.Each[i].Rate(true, age) + z.Each[i].MeanRate(true); best < 0 || rate < least {
			best, least = i, rate
		}
	}
	return best
}

// moves returns the rate per hour at which the steadiest zone loses machines while other zones have some.
func (z *Zones) moves() float64 {
	least := z.Each[0].MeanRate(true)
	for i := range z.Each {
		least = min(least, z.Each[i].MeanRate(true))
	}
	return max(0, least-z.Any.MeanRate(true))
}

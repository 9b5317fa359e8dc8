package market_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// span is one observation: for some hours, machines were available or not.
type span struct {
	up    bool
	hours float64
}

// zone holds the observations of one market. It computes the documented values of an Availability as sums over all
// spans, each with its present weight.
type zone struct {
	spans    []span
	halfLife float64 // in hours; 0 means no fading
	kin      []*zone
}

// drawZone draws random spans. It returns them, and an Availability that has observed them.
func drawZone(t *rapid.T, name string) (*zone, *market.Availability) {
	z := &zone{halfLife: rapid.SampledFrom([]float64{0, 1, 20}).Draw(t, name+" half-life")}
	a := &market.Availability{HalfLife: time.Duration(z.halfLife * float64(time.Hour))}
	hours := rapid.SampledFrom([]float64{0.05, 0.15, 0.7, 3, 30})
	for range rapid.IntRange(0, 30).Draw(t, name+" spans") {
		s := span{rapid.Bool().Draw(t, name+" up"), hours.Draw(t, name+" hours")}
		z.spans = append(z.spans, s)
		a.Observe(s.up, time.Duration(s.hours*float64(time.Hour)))
	}
	return z, a
}

// ageOf returns the class of an age in hours: under 12 minutes, under 24 minutes, and so on.
func ageOf(hours float64) int {
	for b := range ages - 1 {
		if hours < 0.2*math.Exp2(float64(b))-1e-9 {
			return b
		}
	}
	return ages - 1
}

// seen returns how many times a state ended, and for how many hours it was observed. It counts one age class, or all
// classes if age < 0.
func (z *zone) seen(up bool, age int) (changed, hours float64) {
	ago := 0.0
	for _, s := range z.spans {
		ago += s.hours
	}
	old := 0.0 // age of the state, in hours
	for i, s := range z.spans {
		weight := 1.0
		if z.halfLife > 0 {
			weight = math.Pow(0.5, ago/z.halfLife)
		}
		if i > 0 && s.up != z.spans[i-1].up {
			if !s.up == up && (age < 0 || ageOf(old) == age) {
				changed += weight
			}
			old = 0
		}
		if s.up == up && (age < 0 || ageOf(old) == age) {
			hours += weight * s.hours
		}
		old, ago = old+s.hours, ago-s.hours
	}
	return changed, hours
}

func (z *zone) ofKin(up bool, age int) (changed, hours float64) {
	for _, k := range z.kin {
		c, h := k.seen(up, age)
		changed, hours = changed+c, hours+h
	}
	return changed, hours
}

func (z *zone) mean(up bool) float64 {
	prior := 1.0
	if up {
		prior = 0.05
	}
	if changed, hours := z.ofKin(up, -1); hours > 0 {
		prior = (changed + 12*prior) / (hours + 12)
	}
	changed, hours := z.seen(up, -1)
	return (changed + 12*prior) / (hours + 12)
}

func (z *zone) rate(up bool, age int) float64 {
	like := z.mean(up)
	if all, hours := z.ofKin(up, -1); all > 0 {
		changed, there := z.ofKin(up, age)
		like = (changed + 1) / (there + hours/all)
	}
	lean := 0.25 / max(like, 0.02)
	changed, hours := z.seen(up, age)
	return (changed + like*lean) / (hours + lean)
}

// TestAvailabilityMatchesDefinition compares rates and shares with sums over all observations. It covers zones and
// their kin, with and without half-lives.
func TestAvailabilityMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z, a := drawZone(t, "own")
		for range rapid.IntRange(0, 3).Draw(t, "kin") {
			k, like := drawZone(t, "kin")
			z.kin, a.Kin = append(z.kin, k), append(a.Kin, like)
		}
		same := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-6*max(1e-3, math.Abs(want))) {
				t.Fatalf("%s is %v, not %v", what, got, want)
			}
		}
		for _, up := range []bool{true, false} {
			same(fmt.Sprintf("mean rate (up %v)", up), a.MeanRate(up), z.mean(up))
			for age := range ages {
				hours := 0.15 * math.Exp2(float64(age)) // an age within the class
				same(fmt.Sprintf("rate at age %d (up %v)", age, up), a.Rate(up, hours), z.rate(up, age))
			}
		}
		_, some := z.seen(true, -1)
		_, none := z.seen(false, -1)
		share := 0.5
		if some+none > 0 {
			share = some / (some + none)
		}
		same("share", a.Share(), share)
	})
}

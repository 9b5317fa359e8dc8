package market_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

const ages = market.States / 2

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %.12g, not %.12g", what, got, want)
	}
}

// The band of a market is the share of its machines that is interrupted within a month. It is the prior of a zone
// without observations.
func TestBandIsMonthlyInterruptionShare(t *testing.T) {
	for band, share := range map[market.Band]float64{
		"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": 0.3,
	} {
		a := &market.Availability{Band: band}
		near(t, string(band), 1-math.Exp(-a.MeanRate(true)*730), share)
	}
	unknown := &market.Availability{}
	near(t, "hours until an interruption, nothing known", 1/unknown.MeanRate(true), 20)
	near(t, "hours until machines are back, nothing known", 1/unknown.MeanRate(false), 1)
	near(t, "share", unknown.Share(), 0.5)
}

// The prior weighs as much as twelve observed hours. Observations of one state must not affect the other state.
func TestObservationsOutweighPrior(t *testing.T) {
	a := &market.Availability{}
	a.Observe(true, 30*time.Hour)
	a.Observe(false, 2*time.Hour)
	a.Observe(true, 6*time.Hour)
	near(t, "rate of interruptions", a.MeanRate(true), (1+0.05*12)/(36+12))
	near(t, "rate of coming back", a.MeanRate(false), (1+1.0*12)/(2+12))
	near(t, "share", a.Share(), 36.0/38)
	if a.Changes() != 2 {
		t.Errorf("%d changes, not 2", a.Changes())
	}
	if up, age, known := a.Now(); !up || age != 6 || !known {
		t.Errorf("now %v for %v hours, known %v", up, age, known)
	}
}

// If a zone has kin, its prior is their observed rate. Each of the kin weighs as much as it has observed.
func TestKinSetThePrior(t *testing.T) {
	kin := []*market.Availability{{}, {}, {}} // the last has no observations
	kin[0].Observe(true, 10*time.Hour)
	kin[0].Observe(false, time.Hour)
	kin[1].Observe(true, 20*time.Hour)
	a := &market.Availability{Kin: kin}
	prior := (1 + 0.05*12) / (30 + 12)
	near(t, "rate without own observations", a.MeanRate(true), prior)
	a.Observe(true, 5*time.Hour)
	near(t, "rate after five observed hours", a.MeanRate(true), prior*12/(5+12))
}

// After a half-life, an observed hour counts half in the rates and in the share.
func TestObservationsFade(t *testing.T) {
	a := &market.Availability{HalfLife: 10 * time.Hour}
	a.Observe(true, 10*time.Hour)
	a.Observe(false, 10*time.Hour)
	near(t, "share", a.Share(), 1.0/3)
	// The change weighs twice as much as an hour of the first state. The prior weighs as much as new observations.
	near(t, "rate of interruptions", a.MeanRate(true), (2+0.05*12*4)/(10+12*4))

	// After this number of half-lives, weights would overflow without rescaling.
	long, short := &market.Availability{HalfLife: time.Hour}, &market.Availability{HalfLife: time.Hour}
	for i := range 1000 {
		long.Observe(i%2 == 0, time.Hour)
		if i >= 900 {
			short.Observe(i%2 == 0, time.Hour)
		}
	}
	near(t, "share after a thousand half-lives", long.Share(), short.Share())
	near(t, "rate after a thousand half-lives", long.MeanRate(true), short.MeanRate(true))
}

// The first age class ends at twelve minutes, and each further class at twice the age. The last class has no end.
func TestAgeClassesDouble(t *testing.T) {
	edge := 0.2
	for b := range ages {
		if got := market.State(true, edge*0.999); got != b {
			t.Errorf("%.3f hours with machines is state %d, not %d", edge*0.999, got, b)
		}
		after := min(b+1, ages-1)
		if got := market.State(false, edge); got != ages+after || market.StateUp(got) {
			t.Errorf("%.3f hours without machines is state %d, not %d", edge, got, ages+after)
		}
		edge *= 2
	}
	if s := market.State(false, 0); s != ages || market.StateUp(s) || !market.StateUp(s-1) {
		t.Errorf("an outage that has just begun is state %d of %d", s, market.States)
	}
}

// The rate at an age is the rate observed at that age, combined with the mean rate, which weighs as much as a quarter
// of a change.
func TestRateOfAge(t *testing.T) {
	a := &market.Availability{}
	for range 50 { // machines for six minutes, and once for a long time
		a.Observe(true, 6*time.Minute)
		a.Observe(false, 6*time.Minute)
	}
	a.Observe(true, 6*time.Minute)
	for range 100 {
		a.Observe(true, time.Hour)
	}
	mean := a.MeanRate(true)
	near(t, "mean", mean, (50+0.05*12)/(105.1+12))
	// The first hours of the long time count for the age at their start, six minutes.
	near(t, "young", a.Rate(true, 0), (50+0.25)/(6.1+0.25/mean))
	old := a.Rate(true, 1000)
	if old >= mean/10 || old >= a.Rate(true, 0)/100 {
		t.Errorf("at old age the rate is %.4f an hour, the mean rate is %.4f", old, mean)
	}
}

// Each row of the matrix must be a distribution. A state ends at its rate. Otherwise it stays or moves to the next
// age, on average as fast as time passes.
func TestMatrixFollowsRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &market.Availability{Band: rapid.SampledFrom([]market.Band{"", "<5%", ">20%"}).Draw(t, "band")}
		for i := range rapid.IntRange(0, 30).Draw(t, "changes") {
			a.Observe(i%2 == 0, time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes"))*time.Minute)
		}
		step := time.Duration(rapid.IntRange(1, 60).Draw(t, "step")) * time.Minute
		p := a.Matrix(step)
		width := 0.2
		for b := range ages {
			for _, up := range []bool{true, false} {
				base, other := 0, ages
				if !up {
					base, other = ages, 0
				}
				age := 0.0
				if b > 0 {
					age = width * 1.001 // an age at a multiple of the width belongs to the next class
				}
				row := p[(base+b)*market.States : (base+b+1)*market.States]
				end := 1 - math.Exp(-a.Rate(up, age)*step.Hours())
				older := min(1, step.Hours()/width)
				if b == ages-1 {
					older = 0
				}
				want := make([]float64, market.States)
				want[other] = end
				want[base+b] = (1 - end) * (1 - older)
				if b < ages-1 {
					want[base+b+1] = (1 - end) * older
				}
				for q, w := range want {
					if math.Abs(float64(row[q])-w) > 1e-6 {
						t.Fatalf("from age %d (up %v) to state %d: %v, not %v", b, up, q, row[q], w)
					}
				}
			}
			if b > 0 {
				width *= 2
			}
		}
	})
}

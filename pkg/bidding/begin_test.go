package bidding_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// tidal is a market whose price alternates between cheap and dear, for some hours each.
func tidal(cheap, dear float64, turns int) *market.Online {
	prices := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for range turns {
		prices.Observe(at, 0.2)
		at = at.Add(time.Duration(cheap * float64(time.Hour)))
		prices.Observe(at, 0.7)
		at = at.Add(time.Duration(dear * float64(time.Hour)))
	}
	return prices
}

func begin(t *testing.T, l bidding.LiveTask) *bidding.Begin {
	t.Helper()
	b, err := bidding.NewBegin(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBeginWaitsForFallingPrice(t *testing.T) {
	l := bidding.LiveTask{Prices: tidal(4, 1, 40), USD: 0.7, OnDemandUSD: 1, Work: 3, Left: 12, LossesPerHour: 0.01, Restart: 0.3}
	b := begin(t, l)
	for _, c := range []struct {
		usd, left float64
		wait      bool
	}{{0.2, 12, false}, {0.21, 12, false}, {0.7, 12, true}, {0.7, 3.5, false}, {0.2, 3.5, false}} {
		if at, wait := b.Waits(c.usd, 3, c.left); wait != c.wait {
			t.Errorf("at %v USD with %v h left: %v (it begins at %v)", c.usd, c.left, wait, at)
		}
	}
	l.Prices = tidal(1, 200, 40) // the price falls at some time next week
	if at, wait := begin(t, l).Waits(0.7, 3, 12); wait {
		t.Errorf("it waits for a price of %v that is far away", at)
	}
}

// If the price never changes, or never by much, the task begins at once.
func TestBeginDoesNotWaitAtConstantPrice(t *testing.T) {
	for _, usd := range []float64{0.2, 0.9, 3} {
		steady := &market.Online{}
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		for i := range 500 {
			steady.Observe(at.Add(time.Duration(i)*time.Hour), usd*(1+0.01*float64(i%2)))
		}
		for _, prices := range []*market.Online{nil, {}, steady} {
			if b := begin(t, bidding.LiveTask{Prices: prices, USD: usd, OnDemandUSD: 1, Work: 3, Left: 48, Restart: 0.3}); usd < 1 && b.Any() {
				if at, wait := b.Waits(usd, 3, 48); wait {
					t.Errorf("at the constant price %v it waits for %v", usd, at)
				}
			}
		}
	}
}

func TestBeginIsMonotonicInSlack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLive(t)
		b, err := bidding.NewBegin(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		work := rapid.Float64Range(0.01, l.Work).Draw(t, "work left")
		usd := rapid.Float64Range(0.01, 5).Draw(t, "at")
		before, waited := 0.0, true
		for slack := l.Left - l.Work + 2; slack > -1; slack -= 0.1 {
			at, wait := b.Waits(usd, work, work+slack)
			if at < before || wait && !waited {
				t.Fatalf("with %v h of slack it begins at %v (waits: %v), with more at %v (%v)", slack, at, wait, before, waited)
			}
			before, waited = at, wait
		}
		if _, wait := b.Waits(usd, work, work); wait {
			t.Fatal("it waits without slack")
		}
	})
}

func drawLive(t *rapid.T) bidding.LiveTask {
	prices := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	levels := rapid.SliceOfN(rapid.Float64Range(0.05, 2), 1, 4).Draw(t, "levels")
	for range rapid.IntRange(0, 60).Draw(t, "changes") {
		at = at.Add(time.Duration(rapid.IntRange(10, 600).Draw(t, "minutes")) * time.Minute)
		prices.Observe(at, rapid.SampledFrom(levels).Draw(t, "price"))
	}
	l := bidding.LiveTask{
		Prices: prices, USD: rapid.SampledFrom(levels).Draw(t, "usd"), OnDemandUSD: rapid.Float64Range(0.3, 2).Draw(t, "on demand"),
		Work: rapid.Float64Range(0.2, 20).Draw(t, "work"), LossesPerHour: rapid.Float64Range(0, 0.2).Draw(t, "losses"),
		Restart: rapid.Float64Range(0.05, 0.5).Draw(t, "restart"),
	}
	l.Left = l.Work + rapid.Float64Range(0, 30).Draw(t, "slack")
	return l
}

// TestBeginMatchesEnumeration compares the table with the lowest expected cost over all possible decisions,
// with every price path and decision enumerated.
func TestBeginMatchesEnumeration(t *testing.T) {
	const step, restart = 1.0 / 6, 1.0 / 6 // a start takes a whole step, so that no value is interpolated
	for _, prices := range []*market.Online{tidal(2, 0.4, 30), tidal(0.6, 0.6, 30), tidal(1, 3, 30), tidal(0.2, 0.2, 100)} {
		for _, od := range []float64{0.5, 1} {
			l := bidding.LiveTask{Prices: prices, USD: 0.7, OnDemandUSD: od, Work: 3 * step, Left: 9 * step, Restart: restart}
			b := begin(t, l)
			w := courses{chain: prices.Chain(step, l.USD, od), od: od * step, known: map[[4]int]float64{}, step: step}
			if b.StepHours != step || b.Work != 3 || b.Slack != 6 {
				t.Fatalf("%+v", b)
			}
			for work := 1; work <= 3; work++ {
				w.prices(t, b, work)
				longer := true // whether a task with one more step of slack waits too
				for slack := 6; slack >= 0; slack-- {
					for q, usd := range w.chain.USD {
						if usd < 0.69 || usd > 0.71 {
							continue // the limits may come from the first one that waits
						}
						start, wait := w.choices(work, work+slack, q)
						want := longer && wait < start*(1-bidding.BeginGain)
						if _, got := b.Waits(usd, float64(work)*step, float64(work+slack)*step); got != want && math.Abs(wait-start*(1-bidding.BeginGain)) > 1e-5 {
							t.Errorf("%v USD, on-demand %v, %d steps of work and %d of slack: waits %v; beginning costs %v, waiting %v", usd, od, work, slack, got, start, wait)
						}
						longer = want
					}
				}
			}
		}
	}
}

// The table is as a broker stores it: for zero and one step of work, and zero to two of slack.
func TestBeginLookup(t *testing.T) {
	b := &bidding.Begin{StepHours: 0.5, Work: 1, Slack: 2,
		Above: []float32{0, 0, 0.25, 0.5, 0.125, 0.375}, Below: []float32{0, 0, 0, 4, 2, 0}}
	for _, c := range []struct {
		usd, work, left, begin float64
		wait                   bool
	}{
		{1, 0.5, 0.9, math.Inf(1), false}, // less slack than a step
		{1, 0, 0.5, 0.25, true},
		{1e6, 0, 0.5, 0.25, true}, // no upper limit
		{0.25, 0, 0.5, 0.25, false},
		{0.25 * (1 + 5e-7), 0, 0.5, 0.25, false}, // equal except for rounding
		{0.251, 0, 0.5, 0.25, true},
		{1, 0.1, 0.6, 0.5, true}, // a started step counts as a whole one
		{3.9, 0.5, 1, 0.5, true},
		{4, 0.5, 1, 0.5, false},
		{1, 0.5, 1.4999, 0.5, true},
		{1, 0.5, 1.5, 0.375, true},
		{1, 0, 1, 0.125, true},
		{2, 0, 1, 0.125, false},
		{1, 7, 100, 0.375, true}, // beyond the table
		{1, -1, 0, 0.125, true},
	} {
		if begin, wait := b.Waits(c.usd, c.work, c.left); begin != c.begin || wait != c.wait {
			t.Errorf("%v USD with %v h of work in %v h: waits %v, begins at %v", c.usd, c.work, c.left, wait, begin)
		}
	}
	if !b.Any() {
		t.Error("it waits at no price")
	}
	b.Above = []float32{1, 1, 1, 1, 1, 1}
	b.StepHours = 0
	if begin, wait := b.Waits(1, 0.5, 1.5); wait || !math.IsInf(begin, 1) {
		t.Errorf("an empty table waits for %v", begin)
	}
	if b.Above = []float32{0, 0}; b.Any() {
		t.Error("it waits though it begins at any price")
	}
}

package market_test

import (
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

func TestWeekHourCountsFromMonday(t *testing.T) {
	for _, c := range []struct {
		at      string
		day, of int // day of the week, and hour of the day
	}{
		{"2016-02-25T00:00:00Z", 3, 0}, // a Thursday
		{"2016-02-27T23:59:59Z", 5, 23},
		{"2016-02-29T00:00:00Z", 0, 0},
		{"1969-12-31T22:30:00Z", 2, 22},
		{"2016-02-28T01:30:00+03:00", 5, 22},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := ((market.WeekHour(at) % 168) + 168) % 168; got != c.day*24+c.of {
			t.Errorf("%s is hour %d of the week, not %d", c.at, got, c.day*24+c.of)
		}
	}
}

// Prices halve on weekends and double at noon. This must be one level with a rhythm. The learned factor is smaller
// than the real one, because the prior weighs as much as about two weeks.
func TestRelateLearnsCheapWeekends(t *testing.T) {
	const first = 3*24 + 5
	price := func(hour int) float64 {
		usd := 0.4
		if hour%168 >= 5*24 {
			usd /= 2
		}
		if hour%24 == 12 {
			usd *= 2
		}
		return usd
	}
	var usd []float64
	for i := range 8 * 168 {
		usd = append(usd, price(first+i))
	}
	options := market.ChainOptions{HalfLife: 72, Smoothing: 1, Daily: true, Weekly: true}
	c := market.Relate(market.Past{USD: usd, First: first, CapUSD: 1}, nil, options).Chain(1)
	if c.Weekend < 0.5 || c.Weekend > 0.62 {
		t.Errorf("weekends cost %v of other days", c.Weekend)
	}
	for hour := first + len(usd); hour < first+len(usd)+168; hour++ {
		if got, want := c.USD[0]*c.Factor(hour), price(hour); math.Abs(got/want-1) > 0.3 {
			t.Errorf("hour %d of the week costs %v, expected with %v", hour%168, want, got)
		}
	}
	// A market without observations on weekends must learn their factor from its kin.
	young := market.Past{USD: usd[:30], First: first, CapUSD: 1}
	if alone := market.Relate(young, nil, options).Chain(1); alone.Weekend != 1 {
		t.Errorf("weekends cost %v of other days without having been seen", alone.Weekend)
	}
	if told := market.Relate(young, []market.Past{{USD: usd, First: first - len(usd), CapUSD: 1}}, options).Chain(1); told.Weekend > 0.62 {
		t.Errorf("weekends cost %v of other days by what the kin has seen", told.Weekend)
	}
}

func TestZeroRhythmHasFactorOne(t *testing.T) {
	var none market.Rhythm
	for _, hour := range []int{-200, -1, 0, 100, 167, 1000} {
		if f := none.Factor(hour); f != 1 {
			t.Errorf("hour %d: %v", hour, f)
		}
	}
}

// A zone without observations must be expected to lose machines like its kin, at each age. A zone with many
// observations is judged by these.
func TestZoneUsesKinUntilObserved(t *testing.T) {
	kin := &market.Availability{}
	flicker := func(a *market.Availability, up, down time.Duration, times int) {
		for range times {
			a.Observe(true, up)
			a.Observe(false, down)
		}
	}
	flicker(kin, 30*time.Minute, 3*time.Hour, 200)
	a := &market.Availability{Kin: []*market.Availability{kin}}
	if got, want := a.MeanRate(false), kin.MeanRate(false); math.Abs(got/want-1) > 0.05 {
		t.Errorf("a zone not watched yet has machines again at %v an hour, its kin at %v", got, want)
	}
	if got, want := a.Rate(true, 0.05), kin.Rate(true, 0.05); math.Abs(got-want) > 0.3 {
		t.Errorf("a zone not watched yet loses young machines at %v an hour, its kin at %v", got, want)
	}
	for range 400 {
		a.Observe(true, 6*time.Minute)
	}
	for range 50 {
		for range 200 {
			a.Observe(true, 6*time.Minute)
		}
		a.Observe(false, 6*time.Minute)
	}
	if got := a.MeanRate(true); got > 0.1 {
		t.Errorf("a zone that kept machines for twenty hours each loses them at %v an hour", got)
	}
}

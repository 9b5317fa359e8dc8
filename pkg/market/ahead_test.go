package market_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

func TestAheadRevertsToCommonPrice(t *testing.T) {
	var o market.Online
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for day := range 20 { // per day, 20 hours at 0.10 and 4 at 0.30
		o.Observe(at.Add(time.Duration(24*day)*time.Hour), 0.10)
		o.Observe(at.Add(time.Duration(24*day+20)*time.Hour), 0.30)
	}
	got := o.Ahead(0.30, 0.25, 6, 48)
	if len(got) != 3 {
		t.Fatalf("%d expectations for 3 hours", len(got))
	}
	if got[0].USD < 0.27 || got[0].Low < 0.29 {
		t.Errorf("in a quarter of an hour %+v: it should hardly have fallen", got[0])
	}
	if !(got[0].USD > got[1].USD && got[1].USD > got[2].USD) {
		t.Errorf("the forecast does not fall: %+v", got)
	}
	if mean := (20*0.10 + 4*0.30) / 24; got[2].USD < 0.9*mean || got[2].USD > 1.2*mean {
		t.Errorf("the forecast in two days is %.3f, the mean price is %.3f", got[2].USD, mean)
	}
	if got[2].Low > 0.11 || got[2].High < 0.29 {
		t.Errorf("in two days the bounds are %.3f and %.3f", got[2].Low, got[2].High)
	}
}

func TestAheadWithoutHistoryKeepsPrice(t *testing.T) {
	var o market.Online
	for _, e := range o.Ahead(0.42, 1, 24) {
		if e.USD < 0.4199 || e.USD > 0.4201 || e.Low != e.High {
			t.Errorf("%+v", e)
		}
	}
}

// The mean and both bounds must follow from the chain's row for the current price.
func TestAheadMatchesChainRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o market.Online
		price := rapid.SampledFrom([]float64{0.1, 0.16, 0.25, 0.4, 1.7})
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 25).Draw(t, "prices") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{1, 7, 30}).Draw(t, "hours")) * time.Hour)
			o.Observe(at, price.Draw(t, "usd"))
		}
		now := price.Draw(t, "now")
		for _, e := range o.Ahead(now, 0.5, 8, 100) {
			c := o.Chain(e.Hours, now, now)
			n, from := len(c.USD), 0
			for c.Top[from] < now {
				from++
			}
			within := func(share float64) float64 {
				sum := 0.0
				for q := range n {
					if sum += float64(c.P[from*n+q]); sum >= share {
						return c.USD[q]
					}
				}
				return c.USD[n-1]
			}
			mean := 0.0
			for q, usd := range c.USD {
				mean += float64(c.P[from*n+q]) * usd
			}
			if math.Abs(e.USD/mean-1) > 1e-9 || e.Low != within(0.1) || e.High != within(0.9) {
				t.Fatalf("%+v, not %v between %v and %v", e, mean, within(0.1), within(0.9))
			}
		}
	})
}

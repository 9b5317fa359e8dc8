package bidding_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

func TestASteadyCheapMarketIsWorthMoreThanItCosts(t *testing.T) {
	w, err := bidding.NewWorth(context.Background(), bidding.Live{USD: 0.3, OnDemandUSD: 1, Work: 6, Left: 10, LossesPerHour: 0.001, Restart: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if usd := w.MaxUSD(6, 10); usd < 1 {
		t.Errorf("an hour on a steady market is worth only %v of an on-demand hour", usd)
	}
}

// TestASpikeIsSatOutAndABadMarketLeft compares two markets of the same price now: one comes down soon, the other has always been dear.
func TestASpikeIsSatOutAndABadMarketLeft(t *testing.T) {
	spiking, dear := &market.Online{}, &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for range 200 {
		spiking.Observe(at, 0.2)
		dear.Observe(at, 1.6)
		at = at.Add(5 * time.Hour)
		spiking.Observe(at, 1.6)
		dear.Observe(at, 1.65)
		at = at.Add(12 * time.Minute)
	}
	worth := func(prices *market.Online) float64 {
		w, err := bidding.NewWorth(context.Background(), bidding.Live{Prices: prices, USD: 0.85, OnDemandUSD: 0.9, Work: 4, Left: 8, LossesPerHour: 0.3, Restart: 0.4})
		if err != nil {
			t.Fatal(err)
		}
		return w.MaxUSD(4, 8)
	}
	if soon, never := worth(spiking), worth(dear); soon < 1.6 || never >= 1.6 {
		t.Errorf("an hour is worth %v where the price comes down, %v where it never does", soon, never)
	}
}

func TestAnHourIsWorthSomethingAndNoMoreThanOneOnDemandWhereMovingIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prices := &market.Online{}
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			at = at.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes")) * time.Minute)
			prices.Observe(at, rapid.Float64Range(0.05, 3).Draw(t, "price"))
		}
		l := bidding.Live{
			Prices: prices, USD: rapid.Float64Range(0.05, 3).Draw(t, "usd"), OnDemandUSD: rapid.Float64Range(0.1, 3).Draw(t, "on demand"),
			Work:          rapid.Float64Range(0.05, 200).Draw(t, "work"),
			LossesPerHour: rapid.Float64Range(0, 2).Draw(t, "losses"), Restart: rapid.SampledFrom([]float64{0, 0.2, 3}).Draw(t, "restart"),
		}
		l.Left = l.Work * rapid.Float64Range(0.5, 4).Draw(t, "stretch")
		w, err := bidding.NewWorth(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, work := range []float64{0, l.Work / 3, l.Work, 2 * l.Work} {
			for _, left := range []float64{0, l.Work, l.Left, 2 * l.Left} {
				if usd := w.MaxUSD(work, left); !(usd >= 0) || math.IsInf(usd, 1) || l.Restart == 0 && usd > l.OnDemandUSD*1.001 {
					t.Fatalf("an hour is worth %v, on demand %v, and a start takes %v", usd, l.OnDemandUSD, l.Restart)
				}
			}
		}
		if len(w.USD) > 26*34 {
			t.Fatalf("a table of %d values", len(w.USD))
		}
	})
}

func TestALiveTaskThatIsNoneIsRefused(t *testing.T) {
	good := bidding.Live{USD: 0.3, OnDemandUSD: 1, Work: 6, Left: 8}
	for name, spoil := range map[string]func(*bidding.Live){
		"no work":       func(l *bidding.Live) { l.Work = 0 },
		"endless":       func(l *bidding.Live) { l.Work = math.Inf(1) },
		"no price":      func(l *bidding.Live) { l.USD = math.NaN() },
		"no other way":  func(l *bidding.Live) { l.OnDemandUSD = 0 },
		"fewer than no": func(l *bidding.Live) { l.LossesPerHour = -1 },
	} {
		l := good
		spoil(&l)
		if _, err := bidding.NewWorth(context.Background(), l); !errors.Is(err, bidding.ErrModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestALiveTaskDoesNotWait: a broker that leaves goes on elsewhere at once, so dear hours that alternate with cheap ones are worth
// what they cost as long as on-demand costs more.
func TestALiveTaskDoesNotWait(t *testing.T) {
	prices := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for range 200 {
		prices.Observe(at, 0.2)
		at = at.Add(time.Hour)
		prices.Observe(at, 0.9)
		at = at.Add(time.Hour)
	}
	w, err := bidding.NewWorth(context.Background(), bidding.Live{Prices: prices, USD: 0.9, OnDemandUSD: 1, Work: 4, Left: 12, Restart: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	if usd := w.MaxUSD(4, 12); usd < 0.9 {
		t.Errorf("a dear hour is worth %v: there is nothing better, other than to wait", usd)
	}
}

package bidding_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

func TestWorthOnSteadyCheapMarket(t *testing.T) {
	w, err := bidding.NewWorth(context.Background(), bidding.LiveTask{USD: 0.3, OnDemandUSD: 1, Work: 6, Left: 10, LossesPerHour: 0.001, Restart: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if usd := w.MaxUSD(6, 10); usd < 1 {
		t.Errorf("an hour on a steady market is worth only %v of an on-demand hour", usd)
	}
}

// Two markets have the same price now. In one the price soon falls; in the other it was always high.
func TestWorthToleratesSpikes(t *testing.T) {
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
		w, err := bidding.NewWorth(context.Background(), bidding.LiveTask{Prices: prices, USD: 0.85, OnDemandUSD: 0.9, Work: 4, Left: 8, LossesPerHour: 0.3, Restart: 0.4})
		if err != nil {
			t.Fatal(err)
		}
		return w.MaxUSD(4, 8)
	}
	if soon, never := worth(spiking), worth(dear); soon < 1.6 || never >= 1.6 {
		t.Errorf("an hour is worth %v if the price will fall, %v if it never does", soon, never)
	}
}

func TestWorthIsCappedIfMovingIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prices := &market.Online{}
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			at = at.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes")) * time.Minute)
			prices.Observe(at, rapid.Float64Range(0.05, 3).Draw(t, "price"))
		}
		l := bidding.LiveTask{
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
					t.Fatalf("an hour is worth %v, on-demand %v, and a start takes %v", usd, l.OnDemandUSD, l.Restart)
				}
			}
		}
		if len(w.USD) > 26*34 {
			t.Fatalf("a table of %d values", len(w.USD))
		}
	})
}

func TestNewWorthRejectsBadTask(t *testing.T) {
	good := bidding.LiveTask{USD: 0.3, OnDemandUSD: 1, Work: 6, Left: 8}
	for name, spoil := range map[string]func(*bidding.LiveTask){
		"no work":            func(l *bidding.LiveTask) { l.Work = 0 },
		"endless":            func(l *bidding.LiveTask) { l.Work = math.Inf(1) },
		"no price":           func(l *bidding.LiveTask) { l.USD = math.NaN() },
		"no on-demand price": func(l *bidding.LiveTask) { l.OnDemandUSD = 0 },
		"a free machine":     func(l *bidding.LiveTask) { l.USD = 0 },
		"negative losses":    func(l *bidding.LiveTask) { l.LossesPerHour = -1 },
	} {
		l := good
		spoil(&l)
		_, err := bidding.NewWorth(context.Background(), l)
		if !errors.Is(err, bidding.ErrModel) || strings.Contains(err.Error(), "state") ||
			strings.Contains(err.Error(), "on-demand price") {
			t.Errorf("%s: %v", name, err) // the error must describe the task, not the model
		}
	}
}

// A broker that leaves continues elsewhere at once. So expensive hours that alternate with cheap ones are worth their
// price as long as on-demand costs more.
func TestWorthDoesNotWait(t *testing.T) {
	prices := &market.Online{}
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for range 200 {
		prices.Observe(at, 0.2)
		at = at.Add(time.Hour)
		prices.Observe(at, 0.9)
		at = at.Add(time.Hour)
	}
	w, err := bidding.NewWorth(context.Background(), bidding.LiveTask{Prices: prices, USD: 0.9, OnDemandUSD: 1, Work: 4, Left: 12, Restart: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	if usd := w.MaxUSD(4, 12); usd < 0.9 {
		t.Errorf("an expensive hour is worth %v, but the only better alternative is to wait", usd)
	}
}

// The table is as a broker stores it: for zero and one step of work, and zero to two of slack.
func TestWorthLookup(t *testing.T) {
	w := &bidding.Worth{StepHours: 0.5, Work: 1, Slack: 2, USD: []float32{1, 2, 3, 4, 5, 6}}
	for _, c := range []struct{ work, left, want float64 }{
		{0, 0, 1}, {0.5, 0.5, 2}, {0.5, 0.9, 2}, {0, 0.5, 3}, {0.1, 0.6, 4},
		{0.5, 1, 4}, {0.5, 1.4999, 4}, {0.5, 1.5, 6}, {0, 1, 5},
		{7, 100, 6}, {-1, 0, 5}, {3, 1, 2}, // beyond the table
	} {
		if usd := w.MaxUSD(c.work, c.left); usd != c.want {
			t.Errorf("with %v h of work in %v h an hour is worth %v, not %v", c.work, c.left, usd, c.want)
		}
	}
	w.StepHours = 0
	if usd := w.MaxUSD(0.5, 1); usd != 0 {
		t.Errorf("by an empty table an hour is worth %v", usd)
	}
}

// At the price that an hour is worth, staying and moving cost the same. It lies between the last level at which
// staying costs no more than moving and the next.
func TestWorthMatchesEnumeration(t *testing.T) {
	const step, restart = 1.0 / 6, 1.0 / 6 // a start takes a whole step, so that no value is interpolated
	for _, prices := range []*market.Online{
		nil, tidal(2, 0.4, 30), tidal(0.6, 0.6, 30), tidal(1, 3, 30), tidal(0.2, 0.2, 100),
	} {
		for _, od := range []float64{0.25, 0.5, 1} {
			l := bidding.LiveTask{Prices: prices, USD: 0.7, OnDemandUSD: od, Work: 3 * step, Left: 9 * step, Restart: restart}
			w, err := bidding.NewWorth(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			if prices == nil {
				prices = &market.Online{}
			}
			all := courses{
				chain: prices.Chain(step, l.USD, od), od: od * step, known: map[[4]int]float64{},
				step: step, idle: 1000 * od * step,
			}
			for work := 1; work <= 3; work++ {
				for slack := 3; slack <= 6; slack++ { // with less slack no step may be lost
					want := all.worth(work, work+slack)
					got := w.MaxUSD(float64(work)*step, float64(work+slack)*step)
					if math.Abs(got-want) > 1e-3*want {
						t.Errorf("on-demand %v, %d steps of work and %d of slack: an hour is worth %v, not %v", od, work, slack, got, want)
					}
				}
			}
			if none, one := w.MaxUSD(0, 1), w.MaxUSD(step, step+1); none != one {
				t.Errorf("on-demand %v: without work an hour is worth %v, with a step of work %v", od, none, one)
			}
			for _, starts := range []float64{1, 3} {
				l.Restart = starts * step
				if w, err = bidding.NewWorth(context.Background(), l); err != nil {
					t.Fatal(err)
				}
				if tight, enough := w.MaxUSD(step, step), w.MaxUSD(step, (3+starts)*step); tight != enough || tight == 0 {
					t.Errorf("on-demand %v, starts of %v steps: without slack an hour is worth %v, with enough %v",
						od, starts, tight, enough)
				}
			}
		}
	}
}

// worth returns the price of an hour on the held machine at which staying and moving cost the same.
func (w *courses) worth(work, time int) float64 {
	below, gains := 0.0, 0.0
	for q, usd := range w.chain.USD {
		stay := usd*w.step + w.next(work-1, time-1, q, 1)
		move := w.od + w.next(work, time-1, q, 2)
		gain := (move - stay) / w.step
		if gain < 0 && q > 0 {
			return below + (usd-below)*gains/(gains-gain)
		}
		if gain < 0 || q == len(w.chain.USD)-1 {
			return max(usd+gain, 0)
		}
		below, gains = usd, gain
	}
	return 0
}

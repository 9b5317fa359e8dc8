package bidding_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestMixtureBidMatchesTables compares the bid with separately built tables, evaluated at many
// prices. The bid must be the highest price at which spot costs no more on average than the best alternative.
func TestMixtureBidMatchesTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const od, hours, steps = 1.0, 10, 100
		past := market.Past{USD: rapid.SliceOfN(rapid.Float64Range(0.05, 3), 30, 90).Draw(t, "past"), CapUSD: od}
		r := market.Relate(past, nil, market.ChainOptions{HalfLife: 50, Smoothing: 1, Daily: true})
		chains := []*market.Chain{r.Chain(2), r.Chain(5)}
		restart := rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "restart")
		now := len(past.USD)
		x, err := bidding.NewMixture(context.Background(), chains, od, restart, hours, hours, now+hours)
		if err != nil {
			t.Fatal(err)
		}
		left := rapid.IntRange(3, hours).Draw(t, "left")
		work := float64(rapid.IntRange(1, left-2).Draw(t, "work"))
		on := rapid.SampledFrom([]bidding.Holding{bidding.OnNothing, bidding.OnSpot, bidding.OnDemand}).Draw(t, "on")
		hour := now + hours - left

		var tables []*bidding.Table
		for _, c := range chains {
			m := bidding.PriceModel(c, od, restart)
			m.Fallback = true
			for k := range left + 1 {
				m.Factor = append(m.Factor, float32(c.Factor(hour+left-k)))
			}
			table, err := bidding.Build(context.Background(), m, left, left)
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, table)
		}
		// dearer returns the expected extra cost to the end of an hour on spot at a price over the best alternative.
		dearer := func(usd float64) float64 {
			spot, wait, onDemand := 0.0, 0.0, 0.0
			for k, table := range tables {
				choice := table.Choose(work, float64(left), chains[k].Level(usd, hour), usd, on)
				spot, wait, onDemand = spot+choice.Spot, wait+choice.Wait, onDemand+choice.OnDemand
			}
			return spot - min(wait, onDemand)
		}
		got, onDemand := x.Bid(work, float64(left), hour, past.USD[now-1], on)
		// more returns the expected extra cost of an hour on demand over an hour of waiting, if spot costs more than
		// the bid.
		more := 0.0
		for k, table := range tables {
			n := len(chains[k].USD)
			for q, usd := range chains[k].USD {
				if usd *= chains[k].Factor(hour); usd > got {
					c := table.Choose(work, float64(left), q, usd, on)
					more += float64(chains[k].P[chains[k].Level(past.USD[now-1], hour-1)*n+q]) * (c.OnDemand - min(c.Wait, 1e30))
				}
			}
		}
		if want := got >= od || more < 0; onDemand != want && math.Abs(more) > 1e-4 {
			t.Fatalf("bids %v; above it, on-demand costs %v more than waiting; on demand: %v", got, more, onDemand)
		}
		if just := got - 1e-6; just > 0 && dearer(just) > 1e-4 {
			t.Fatalf("bids %v, which costs %v more than the alternative", got, dearer(just))
		}
		for i := 1; i <= steps; i++ {
			if usd := od * float64(i) / steps; usd > got+1e-4 && dearer(usd) < -1e-4 {
				t.Fatalf("bids %v, but %v saves %v", got, usd, -dearer(usd))
			}
		}
	})
}

// If one chain would wait and the other would not, the bid is between theirs.
func TestMixtureBidIsBetweenItsChains(t *testing.T) {
	chain := func(usd ...float64) *market.Chain {
		c := &market.Chain{USD: usd, Top: usd, P: []float32{0.5, 0.5, 0.5, 0.5}}
		return c
	}
	bid := func(chains ...*market.Chain) float64 {
		x, err := bidding.NewMixture(context.Background(), chains, 1, 0, 4, 10, 10)
		if err != nil {
			t.Fatal(err)
		}
		usd, _ := x.Bid(4, 10, 0, 0.2, bidding.OnNothing)
		return usd
	}
	cheap, dear := chain(0.1, 0.6), chain(0.3, 0.9)
	low, high, mixed := bid(cheap), bid(dear), bid(cheap, dear)
	if !(low < mixed && mixed < high) {
		t.Errorf("bids %v, %v and mixed %v", low, high, mixed)
	}
}

// With slack, an expensive hour is waited out; without slack it runs on demand.
func TestMixtureWaitsIfThereIsSlack(t *testing.T) {
	usd := []float64{0.2, 0.8}
	c := &market.Chain{USD: usd, Top: usd, P: []float32{0.5, 0.5, 0.5, 0.5}}
	x, err := bidding.NewMixture(context.Background(), []*market.Chain{c}, 1, 0, 4, 10, 10)
	if err != nil {
		t.Fatal(err)
	}
	if bid, onDemand := x.Bid(1, 2, 8, 0.2, bidding.OnNothing); onDemand || math.Abs(bid-0.5) > 1e-6 {
		t.Errorf("with an hour of slack it bids %v; on demand: %v", bid, onDemand)
	}
	if bid, onDemand := x.Bid(2, 2, 8, 0.2, bidding.OnNothing); !onDemand || math.Abs(bid-1) > 1e-9 {
		t.Errorf("without slack it bids %v; on demand: %v", bid, onDemand)
	}
}

// An on-demand machine is kept at a spot price of 2, which lasts long. It is released for an hour of waiting at 1.2,
// after which the price is 0.1. The previous price, with the rhythm of its own hour, decides which of them is more
// likely.
func TestMixtureKeepsOnDemandDuringLongHighPrice(t *testing.T) {
	c := &market.Chain{
		USD: []float64{0.1, 1.2, 2},
		Top: []float64{0.1, 1.2, 2},
		P: []float32{
			0.6, 0.39, 0.01,
			1, 0, 0,
			0.003, 0.002, 0.995,
		},
	}
	c.Daily[9] = 0.4
	x, err := bidding.NewMixture(context.Background(), []*market.Chain{c}, 1, 0.5, 12, 20, 20)
	if err != nil {
		t.Fatal(err)
	}
	for last, want := range map[float64]bool{0.1: false, 2: true, 0.8: false} {
		bid, onDemand := x.Bid(4, 12, 8, last, bidding.OnDemand)
		if onDemand != want || bid > 1 {
			t.Errorf("after %v USD it bids %v; on demand: %v", last, bid, onDemand)
		}
	}
}

func TestNewMixtureRejectsBadChain(t *testing.T) {
	c := &market.Chain{USD: []float64{0.2}, Top: []float64{0.2}, P: []float32{0.5}}
	_, err := bidding.NewMixture(context.Background(), []*market.Chain{c}, 1, 0, 2, 4, 4)
	if !errors.Is(err, bidding.ErrModel) {
		t.Errorf("a row that sums to a half: %v", err)
	}
}

package bidding_test

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestAMixtureBidsWhatItsTablesFindWorthItInTheMean compares the bid with the verdict of the tables themselves, built one by one and asked
// at each of many prices: the highest at which spot costs no more in the mean than the best other way.
func TestAMixtureBidsWhatItsTablesFindWorthItInTheMean(t *testing.T) {
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
		// dearer is by how much an hour on spot at a price is expected to cost more to the end than the best other way.
		dearer := func(usd float64) float64 {
			spot, wait, onDemand := 0.0, 0.0, 0.0
			for k, table := range tables {
				choice := table.Choose(work, float64(left), chains[k].Level(usd, hour), usd, on)
				spot, wait, onDemand = spot+choice.Spot, wait+choice.Wait, onDemand+choice.OnDemand
			}
			return spot - min(wait, onDemand)
		}
		got, _ := x.Bid(work, float64(left), hour, past.USD[now-1], on)
		if just := got - 1e-6; just > 0 && dearer(just) > 1e-4 {
			t.Fatalf("bids %v, which is %v more than another way", got, dearer(just))
		}
		for i := 1; i <= steps; i++ {
			if usd := od * float64(i) / steps; usd > got+1e-4 && dearer(usd) < -1e-4 {
				t.Fatalf("bids %v, though %v is worth it by %v", got, usd, -dearer(usd))
			}
		}
	})
}

// TestAMixtureOfACheapAndADearMarketStandsBetween: where one chain would wait and the other would not, the bid is between theirs.
func TestAMixtureOfACheapAndADearMarketStandsBetween(t *testing.T) {
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

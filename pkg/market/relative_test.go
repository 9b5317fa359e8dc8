package market_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/market"
)

// A price alternates between two values around a level that rises tenfold in a month. The chain must have two levels,
// both near the current price.
func TestRelateFollowsDriftingLevel(t *testing.T) {
	const hours, often = 720, 0.2
	rng := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // a simulation
	var usd []float64
	high := 0
	for h := range hours {
		if rng.Float64() < often {
			high = 1 - high
		}
		usd = append(usd, 0.05*math.Pow(10, float64(h)/hours)*[]float64{1, 1.5}[high])
	}
	options := market.ChainOptions{HalfLife: 300, Smoothing: 1}
	c := market.Relate(market.Past{USD: usd, CapUSD: 5}, nil, options).Chain(2)
	now := 0.5 // the lower price; the trailing level is about four days behind
	if n := len(c.USD); n != 2 || math.Abs(c.USD[0]/now-1) > 0.15 || math.Abs(c.USD[1]/c.USD[0]-1.5) > 0.1 {
		t.Fatalf("levels %v", c.USD)
	}
	if got := float64(c.P[1]); math.Abs(got-often) > 0.08 {
		t.Errorf("it goes up with probability %v, simulated with %v", got, often)
	}
	plain := market.Learn(usd, market.ChainOptions{Levels: 2, HalfLife: 300, Smoothing: 1})
	if got := float64(plain.P[1]); got > often/2 {
		t.Errorf("without a trailing level the drift should hide the steps, but they have probability %v", got)
	}
}

// A market has had no high prices yet. It must learn from its kin how long a period of high prices lasts.
func TestRelateLearnsFromKin(t *testing.T) {
	calm := make([]float64, 240)
	for h := range calm {
		calm[h] = 0.2 + 0.01*float64(h%3)
	}
	wild := make([]float64, 300) // starts sixty hours earlier
	for h := range wild {
		wild[h] = calm[h%3]
		if h%40 >= 30 {
			wild[h] = 2
		}
	}
	spike := append(calm[:239:239], 2)
	options := market.ChainOptions{HalfLife: 1000, Smoothing: 0.01}
	staysHigh := func(kin ...market.Past) float64 {
		c := market.Relate(market.Past{USD: spike, CapUSD: 1}, kin, options).Chain(240)
		n := len(c.USD)
		return float64(c.P[n*n-1])
	}
	alone, together := staysHigh(), staysHigh(market.Past{USD: wild, First: -60, CapUSD: 1})
	if alone > 0.6 || math.Abs(together-0.9) > 0.05 {
		t.Errorf("a high price stays with %v alone and %v with its kin, though such periods last ten hours", alone, together)
	}
}

// For any past prices, rows must sum to one and levels must rise.
func TestRelativeChainIsAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Float64Range(0.001, 50)
		own := market.Past{USD: rapid.SliceOfN(price, 1, 60).Draw(t, "own"), First: rapid.IntRange(-30, 30).Draw(t, "first"), CapUSD: 1}
		var kin []market.Past
		for range rapid.IntRange(0, 2).Draw(t, "zones") {
			kin = append(kin, market.Past{USD: rapid.SliceOfN(price, 0, 60).Draw(t, "kin"), First: rapid.IntRange(-60, 30).Draw(t, "from"), CapUSD: 1})
		}
		r := market.Relate(own, kin, market.ChainOptions{HalfLife: 5, Smoothing: 1, Daily: rapid.Bool().Draw(t, "daily")})
		c := r.Chain(rapid.IntRange(1, 12).Draw(t, "levels"))
		rows(t, c)
		if top := c.Top[len(c.Top)-1]; len(c.Top) != len(c.USD) || !(top > 0) || math.IsInf(top, 0) {
			t.Fatalf("levels up to %v", c.Top)
		}
	})
}

package bidding_test

import (
	"context"
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

func built(t *testing.T, m bidding.Model, work, left int) *bidding.Table {
	t.Helper()
	table, err := bidding.Build(context.Background(), m, work, left)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func coin(usd ...float32) bidding.Model {
	return bidding.Model{OnDemandUSD: 1, USD: usd, P: []float32{0.5, 0.5, 0.5, 0.5}}
}

// Prices are 0.2 and 0.8 with equal probability, so the next price is 0.5 on average. With a step of slack, no price
// above 0.5 is worth it, and all below are. In the last step but one there is none.
func TestBidIsExpectedCostOfWaiting(t *testing.T) {
	now := bidding.OnNothing
	for _, c := range []struct {
		name       string
		m          bidding.Model
		work, left float64
		want       float64
	}{
		{"the mean of the next price", coin(0.2, 0.8), 1, 3, 0.5},
		{"prices are capped at on-demand", coin(0.2, 1.8), 1, 3, 0.6},
		{"two steps of slack: 0.2 half of the time, otherwise 0.5", coin(0.2, 0.8), 1, 4, 0.35},
		{"no work left", coin(0.2, 0.8), 0, 3, 0},
		{"negative work", coin(0.2, 0.8), -1, 3, 0},
		{"both prices are low", coin(0.2, 0.3), 1, 3, 0.25},
		{"one step of slack", coin(0.2, 0.8), 1, 2, 1},
		{"no slack", coin(0.2, 0.8), 2, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if bid := built(t, c.m, 2, 4).Bid(c.work, c.left, 0, now); math.Abs(bid-c.want) > 1e-6 {
				t.Errorf("bids %v, not %v", bid, c.want)
			}
		})
	}
}

// All prices are twice as high in this step as in the next, so the cheapest level is now too expensive. A lower price
// would still be acceptable.
func TestBidBelowCheapestLevel(t *testing.T) {
	m := coin(0.3, 0.4)
	m.Factor = []float32{1, 1, 1, 2}
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.35) > 1e-6 {
		t.Errorf("bids %v, but the next step costs 0.35 on average", bid)
	}
}

// A level with zero probability does not change the bid.
func TestBidIgnoresImpossibleLevels(t *testing.T) {
	m := bidding.Model{OnDemandUSD: 1, USD: []float32{0.2, 0.4, 0.6}, P: []float32{0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5}}
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.4) > 1e-6 {
		t.Errorf("bids %v, but the next step costs 0.2 or 0.6", bid)
	}
	m.P = []float32{1, 0, 0, 1, 0, 0, 1, 0, 0} // it is always 0.2
	if bid := built(t, m, 1, 2).Bid(1, 2, 0, bidding.OnNothing); bid != 1 {
		t.Errorf("with one step to spare the bid is %v, not the on-demand price", bid)
	}
	m.P = []float32{0, 0, 1, 0, 0, 1, 0, 0, 1} // it is always 0.6
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.6) > 1e-6 {
		t.Errorf("bids %v, but the price is always 0.6", bid)
	}
}

// After 0.5 comes 0.2, after 0.8 comes 0.9. So 0.8 is worth paying and 0.5 is not. A bid that accepts 0.8 also
// accepts 0.5, so the bid depends on which of them is more likely.
func TestBidDependsOnNextPrices(t *testing.T) {
	m := bidding.Model{OnDemandUSD: 1, USD: []float32{0.2, 0.5, 0.8, 0.9}, P: []float32{
		0.3, 0.3, 0.3, 0.1,
		1, 0, 0, 0,
		0, 0, 0, 1,
		0.2, 0.1, 0.7, 0,
	}}
	table := built(t, m, 1, 3)
	// At 0.2 waiting costs 0.54, at 0.5 it costs 0.2; at 0.8 it costs 0.9, at 0.9 it costs 0.65.
	low, high := 0.2+0.3*0.34/(0.34+0.3), 0.8+0.1*0.1/(0.1+0.25)
	for s, want := range []float64{low, low, low, high} {
		if bid := table.Bid(1, 3, s, bidding.OnNothing); math.Abs(bid-want) > 1e-6 {
			t.Errorf("after level %d it bids %v, not %v", s, bid, want)
		}
	}
}

// A step on the held machine does a full step of work; a step on a new machine does half of one.
func TestHeldMachineIsWorthMore(t *testing.T) {
	m := coin(0.2, 0.8)
	m.Restart = 0.5
	table := built(t, m, 2, 6)
	held, started := table.Bid(2, 6, 0, bidding.OnSpot), table.Bid(2, 6, 0, bidding.OnNothing)
	if !(held > started && started > 0.2) {
		t.Errorf("bids %v for the held machine, %v for a new one", held, started)
	}
	kept := table.Choose(2, 6, 1, 0.4, bidding.OnSpot)
	if want := 0.4 + table.Cost(1, 5, 1, bidding.OnSpot); kept.On != bidding.OnSpot || math.Abs(kept.USD-want) > 1e-9 {
		t.Errorf("a held machine at 0.4: %+v, staying costs %v", kept, want)
	}
	if again := table.Choose(2, 6, 1, 0.4, bidding.OnNothing); again.Spot <= kept.Spot {
		t.Errorf("a machine at 0.4 costs %v with a start, %v without", again.Spot, kept.Spot)
	}
}

func TestChooseWithFewAlternatives(t *testing.T) {
	m := coin(0.2, 0.8)
	m.ReleaseUSD = 0.05
	table := built(t, m, 2, 6)
	if c := table.Choose(2, 2, 0, 0.2, bidding.OnNothing); c.On != bidding.OnDemand || c.USD != 2 ||
		c.Spot < 1e29 || c.Wait < 1e29 {
		t.Errorf("without slack: %+v", c)
	}
	if c := table.Choose(2, 3, 0, 0.2, bidding.OnNothing); c.On != bidding.OnSpot || math.Abs(c.Wait-2.05) > 1e-6 {
		t.Errorf("with a step of slack: %+v", c)
	}
	if c := table.Choose(1, 4, 0, math.Inf(1), bidding.OnNothing); c.On != bidding.OnNothing || c.Spot < 1e29 {
		t.Errorf("without a machine: %+v", c)
	}
	// If costs are equal, the task stays where it is.
	tie := built(t, bidding.Model{OnDemandUSD: 1, Restart: 1, USD: []float32{1}, P: []float32{1}}, 2, 8)
	for _, on := range []bidding.Holding{bidding.OnSpot, bidding.OnDemand} {
		if c := tie.Choose(2, 8, 0, 1, on); c.On != on {
			t.Errorf("on %v, at the same price: %+v", on, c)
		}
	}
	same := built(t, bidding.Model{OnDemandUSD: 1, USD: []float32{1}, P: []float32{1}}, 2, 8)
	for on, want := range map[bidding.Holding]bidding.Holding{
		bidding.OnNothing: bidding.OnDemand, bidding.OnSpot: bidding.OnSpot, bidding.OnDemand: bidding.OnDemand} {
		if c := same.Choose(2, 8, 0, 1, on); c.On != want {
			t.Errorf("on %v, all at the same price: %+v", on, c)
		}
	}
	if usd := table.CostAt(3, 2, 0, bidding.OnNothing); usd < 1e29 || math.IsInf(usd, 1) {
		t.Errorf("an impossible state costs %v", usd)
	}
}

func TestStateOf(t *testing.T) {
	table := built(t, coin(0.25, 0.75), 1, 2)
	for usd, want := range map[float64]int{0.1: 0, 0.25: 0, 0.26: 1, 0.75: 1, 3: 1} {
		if s := table.StateOf(usd); s != want {
			t.Errorf("%v USD is level %d, not %d", usd, s, want)
		}
	}
}

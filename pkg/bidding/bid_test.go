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

// TestABidIsWhatWaitingIsExpectedToCost: of prices of 0.2 and 0.8, as likely as each other, the next costs 0.5 in the
// mean. So with a step to wait in, which the last but one is, no price above 0.5 is worth it, and all below are.
func TestABidIsWhatWaitingIsExpectedToCost(t *testing.T) {
	now := bidding.OnNothing
	for _, c := range []struct {
		name       string
		m          bidding.Model
		work, left float64
		want       float64
	}{
		{"the mean of what comes", coin(0.2, 0.8), 1, 3, 0.5},
		{"no price above on demand counts for more", coin(0.2, 1.8), 1, 3, 0.6},
		{"two steps to wait in: half of the time 0.2, or else 0.5", coin(0.2, 0.8), 1, 4, 0.35},
		{"all of the work is done", coin(0.2, 0.8), 0, 3, 0},
		{"less than none", coin(0.2, 0.8), -1, 3, 0},
		{"both prices are low", coin(0.2, 0.3), 1, 3, 0.25},
		{"a step to spare", coin(0.2, 0.8), 1, 2, 1},
		{"none to spare", coin(0.2, 0.8), 2, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if bid := built(t, c.m, 2, 4).Bid(c.work, c.left, 0, now); math.Abs(bid-c.want) > 1e-6 {
				t.Errorf("bids %v, not %v", bid, c.want)
			}
		})
	}
}

// TestABidBelowTheCheapestLevel: all prices are twice as high in this step as in the next, so that the cheapest of now
// is too dear; what would be cheaper still may do.
func TestABidBelowTheCheapestLevel(t *testing.T) {
	m := coin(0.3, 0.4)
	m.Factor = []float32{1, 1, 1, 2}
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.35) > 1e-6 {
		t.Errorf("bids %v where the next step costs 0.35 in the mean", bid)
	}
}

// TestABidPassesOverWhatCannotCome: a level that has no chance makes the bid neither lower nor dearer.
func TestABidPassesOverWhatCannotCome(t *testing.T) {
	m := bidding.Model{OnDemandUSD: 1, USD: []float32{0.2, 0.4, 0.6}, P: []float32{0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5}}
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.4) > 1e-6 {
		t.Errorf("bids %v where the next step costs 0.2 or 0.6", bid)
	}
	m.P = []float32{1, 0, 0, 1, 0, 0, 1, 0, 0} // it is always 0.2
	if bid := built(t, m, 1, 2).Bid(1, 2, 0, bidding.OnNothing); bid != 1 {
		t.Errorf("with one step to spare the bid is %v, not the on-demand price", bid)
	}
	m.P = []float32{0, 0, 1, 0, 0, 1, 0, 0, 1} // it is always 0.6
	if bid := built(t, m, 1, 3).Bid(1, 3, 0, bidding.OnNothing); math.Abs(bid-0.6) > 1e-6 {
		t.Errorf("bids %v where it always costs 0.6", bid)
	}
}

// TestADearPriceIsWorthItBeforeADearerOne: after 0.5 comes 0.2, after 0.8 comes 0.9. So 0.8 is worth paying and 0.5 is
// not, and as a bid that takes the one takes the other, it depends on which is likelier to come.
func TestADearPriceIsWorthItBeforeADearerOne(t *testing.T) {
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

// TestWithAStartWhatIsHeldIsWorthMore: a step on what is held does a step of work, one on what has to be started half
// of one.
func TestWithAStartWhatIsHeldIsWorthMore(t *testing.T) {
	m := coin(0.2, 0.8)
	m.Restart = 0.5
	table := built(t, m, 2, 6)
	held, started := table.Bid(2, 6, 0, bidding.OnSpot), table.Bid(2, 6, 0, bidding.OnNothing)
	if !(held > started && started > 0.2) {
		t.Errorf("bids %v for what is held, %v for what has to be started", held, started)
	}
	kept := table.Choose(2, 6, 1, 0.4, bidding.OnSpot)
	if want := 0.4 + table.Cost(1, 5, 1, bidding.OnSpot); kept.On != bidding.OnSpot || math.Abs(kept.USD-want) > 1e-9 {
		t.Errorf("a machine that is held at 0.4: %+v, to go on costs %v", kept, want)
	}
	if again := table.Choose(2, 6, 1, 0.4, bidding.OnNothing); again.Spot <= kept.Spot {
		t.Errorf("a machine at 0.4 costs %v with a start, %v without", again.Spot, kept.Spot)
	}
}

func TestAChoiceWhereNothingElseIsOpen(t *testing.T) {
	m := coin(0.2, 0.8)
	m.ReleaseUSD = 0.05
	table := built(t, m, 2, 6)
	if c := table.Choose(2, 2, 0, 0.2, bidding.OnNothing); c.On != bidding.OnDemand || c.USD != 2 ||
		c.Spot < 1e29 || c.Wait < 1e29 {
		t.Errorf("without time to spare: %+v", c)
	}
	if c := table.Choose(2, 3, 0, 0.2, bidding.OnNothing); c.On != bidding.OnSpot || math.Abs(c.Wait-2.05) > 1e-6 {
		t.Errorf("with a step to spare: %+v", c)
	}
	if c := table.Choose(1, 4, 0, math.Inf(1), bidding.OnNothing); c.On != bidding.OnNothing || c.Spot < 1e29 {
		t.Errorf("without a machine: %+v", c)
	}
	// A tie goes on as it is.
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
		t.Errorf("what cannot be done costs %v", usd)
	}
}

func TestThePriceOfAStateIsTheNearestFromAbove(t *testing.T) {
	table := built(t, coin(0.25, 0.75), 1, 2)
	for usd, want := range map[float64]int{0.1: 0, 0.25: 0, 0.26: 1, 0.75: 1, 3: 1} {
		if s := table.StateOf(usd); s != want {
			t.Errorf("%v USD is level %d, not %d", usd, s, want)
		}
	}
}

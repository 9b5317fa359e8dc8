package policy_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

// The bid must be near the spot price if much time is left, and near the on-demand price shortly before the latest
// time to switch to on-demand.
func TestAIBFollowsFormula(t *testing.T) {
	bid := func(left int) float64 {
		p := &policy.AIB{OnDemandUSD: 1}
		o, err := p.Order(policy.Hour{Work: 10, Left: left, History: []float64{0.3, 0.2}})
		if err != nil {
			t.Fatal(err)
		}
		return o.MaxUSD
	}
	if got, want := bid(30), math.Exp(-0.1*20)+(1-math.Exp(-0.1*20))*0.2; math.Abs(got-want) > 1e-12 {
		t.Errorf("with 20 hours to the latest time the bid is %v, by the formula %v", got, want)
	}
	// Half of the hours cost more than the first bid. So the second bid is half way to the on-demand price.
	p := &policy.AIB{OnDemandUSD: 1}
	for i, want := range []float64{0.2, 0.5*1 + 0.5*0.2} {
		o, err := p.Order(policy.Hour{Work: 10, Left: 400, History: []float64{0.9, 0.2}})
		if err != nil || math.Abs(o.MaxUSD-want) > 1e-9 {
			t.Errorf("bid %d is %v, by the formula %v (%v)", i+1, o.MaxUSD, want, err)
		}
	}
	if near, far := bid(12), bid(400); near < 0.8 || far > 0.201 {
		t.Errorf("bids %v near the latest time and %v far from it", near, far)
	}
	if o, err := (&policy.AIB{OnDemandUSD: 1}).Order(policy.Hour{Work: 10, Left: 10, History: []float64{0.2}}); err != nil || !o.OnDemand || o.MaxUSD != 0 {
		t.Errorf("at the latest time: %+v %v", o, err)
	}
}

func TestGreedyUsesSpotUntilThePointOfNoReturn(t *testing.T) {
	p := policy.Greedy{OnDemandUSD: 1}
	for left, onDemand := range map[int]bool{20: false, 11: false, 10: true} {
		o, err := p.Order(policy.Hour{Work: 10, Left: left})
		if err != nil || o.OnDemand != onDemand || (o.MaxUSD > 0) == onDemand {
			t.Errorf("%d hours left for 10 of work: %+v %v", left, o, err)
		}
	}
}

// Each case follows one rule of the algorithm.
func TestUniformPlace(t *testing.T) {
	const work, deadline = 10.0, 20.0
	view := func(done, gone float64, on bidding.Holding, up bool) policy.View {
		return policy.View{
			Work: work - done, Left: deadline - gone, Step: 0.1, Up: []bool{up}, On: on, Changeover: 0.2, SpotUSD: 0.3, OnDemandUSD: 1,
		}
	}
	for name, c := range map[string]struct {
		view policy.View
		want bidding.Holding
	}{
		"uses spot if available":                      {view(5, 10, bidding.OnNothing, true), bidding.OnSpot},
		"keeps spot, however far ahead":               {view(9, 10, bidding.OnSpot, true), bidding.OnSpot},
		"waits without spot if ahead":                 {view(5.1, 10, bidding.OnNothing, false), bidding.OnNothing},
		"goes on demand without spot if behind":       {view(4.9, 10, bidding.OnNothing, false), bidding.OnDemand},
		"stays on demand until two changeovers ahead": {view(5.1, 10, bidding.OnDemand, true), bidding.OnDemand},
		"then returns to spot":                        {view(5.3, 10, bidding.OnDemand, true), bidding.OnSpot},
		"with two changeovers left goes on demand":    {view(0.35, 10, bidding.OnNothing, true), bidding.OnDemand},
		"keeps a held machine to the end":             {view(0.35, 10, bidding.OnSpot, true), bidding.OnSpot},
		"unless a loss would be too late":             {view(0.2, 10, bidding.OnSpot, true), bidding.OnDemand},
	} {
		got, err := (&policy.UniformPlace{Work: work, Deadline: deadline}).Choose(c.view)
		if err != nil || got.On != c.want {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// The price alternates between 0.2 and 0.9 for days. Markov must wait during the expensive hours while there is time.
func TestMarkovWaitsOutExpensiveHours(t *testing.T) {
	var history []float64
	for h := range 24 * 20 {
		history = append(history, []float64{0.2, 0.9}[h/12%2])
	}
	p := policy.NewMarkov(context.Background(), 1)
	o, err := p.Order(policy.Hour{Work: 10, Left: 30, Start: len(history), History: history})
	if err != nil {
		t.Fatal(err)
	}
	if o.MaxUSD < 0.2 || o.MaxUSD >= 0.9 || o.OnDemand {
		t.Errorf("with 30 hours for 10 of work: %+v", o)
	}
	p = policy.NewMarkov(context.Background(), 1)
	if o, err = p.Order(policy.Hour{Work: 10, Left: 10, Start: len(history), History: history}); err != nil || o.MaxUSD != 1 || !o.OnDemand {
		t.Errorf("without slack it takes the cheaper: %+v %v", o, err)
	}
	if o, err = p.Order(policy.Hour{Work: 10, Left: 10, Start: len(history), History: history, Restart: 0.2}); err != nil || o.MaxUSD != 0 || !o.OnDemand {
		t.Errorf("but not if a start would take too long: %+v %v", o, err)
	}
}

func TestBidsNeverExceedOnDemandPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOfN(rapid.Float64Range(0.01, 5), 1, 100).Draw(t, "history")
		work := rapid.IntRange(1, 20).Draw(t, "work")
		h := policy.Hour{
			Work: float64(work), Left: work + rapid.IntRange(0, 20).Draw(t, "slack"), Start: len(history), History: history,
			Restart: rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "restart"),
		}
		if h.Restart > 0 {
			h.Left++
		}
		paper, err := policy.NewBFRC(context.Background(), history, work, h.Left, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]policy.Bidder{
			"aib": &policy.AIB{OnDemandUSD: 1}, "markov": policy.NewMarkov(context.Background(), 1), "bfrc": paper.Run(), "greedy": policy.Greedy{OnDemandUSD: 1},
		} {
			o, err := b.Order(h)
			if err != nil {
				t.Fatal(err)
			}
			if !(o.MaxUSD >= 0) || o.MaxUSD > 1+1e-9 {
				t.Fatalf("%s bids %v, but on-demand costs 1", name, o.MaxUSD)
			}
			if float64(h.Left) <= h.Work+h.Restart && !o.OnDemand {
				t.Fatalf("%s does not fall back to on-demand without slack", name)
			}
		}
	})
}

func TestMarkovPlaceUsesSteadiestZone(t *testing.T) {
	zones := policy.NewZones(2, 0)
	rng := rand.New(rand.NewPCG(9, 9)) //nolint:gosec // a simulation
	for range 4000 {
		zones.Observe([]bool{rng.Float64() < 0.7, rng.Float64() < 0.97}, 10*time.Minute)
	}
	zones.Observe([]bool{true, true}, 10*time.Minute)
	p, err := policy.NewMarkovPlace(context.Background()).Choose(policy.View{
		Work: 10, Left: 14, Step: 1.0 / 6, Up: []bool{true, true}, Zones: zones, Changeover: 0.2, SpotUSD: 0.3, OnDemandUSD: 1,
	})
	if err != nil || p.On != bidding.OnSpot || p.Zone != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

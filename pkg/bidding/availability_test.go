package bidding_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Prices are per hour, the model's are per step, and a start takes the same time whatever the step.
func TestAvailabilityModelPricesPerStep(t *testing.T) {
	m := bidding.AvailabilityModel(&market.Availability{}, 0.3, 1, 30*time.Minute, 6*time.Minute)
	table, err := bidding.Build(context.Background(), m, 4, 12)
	if err != nil {
		t.Fatal(err)
	}
	for s, usd := range m.USD {
		if up := market.StateUp(s); up && math.Abs(float64(usd)-0.15) > 1e-6 || !up && !math.IsInf(float64(usd), 1) {
			t.Errorf("state %d, with machines: %v, costs %v in half an hour", s, up, usd)
		}
		// Two hours of work and six minutes of a start, without slack.
		if usd := table.Cost(4, 4.2, s, bidding.OnNothing); math.Abs(usd-2.1) > 1e-5 {
			t.Errorf("in state %d two hours on demand, and a start, cost %v", s, usd)
		}
	}
}

// zones has two price levels and a state in which no zone has a machine.
func zones(restart float64) bidding.Model {
	return bidding.Model{
		OnDemandUSD: 1, Restart: restart, USD: []float32{0.2, 0.4, float32(math.Inf(1))},
		P: []float32{0.5, 0.3, 0.2, 0.1, 0.6, 0.3, 0.25, 0.25, 0.5},
	}
}

// Prices change as before. A share of the held machines is lost in each step, and none is lost in a state without
// machines.
func TestWithMovesLosesHeldMachines(t *testing.T) {
	m := zones(0.5)
	wide := bidding.WithMoves(m, 0.1, 2*time.Hour)
	const n = 5 // the states with a machine, entered by a loss, come last
	if wide.Levels() != n {
		t.Fatalf("%d states", wide.Levels())
	}
	is := []int{0, 1, 2, 0, 1}
	lost := 1 - math.Exp(-0.2)
	for s := range n {
		if wide.Fresh[s] != (s > 2) || wide.USD[s] != m.USD[is[s]] {
			t.Errorf("state %d costs %v, entered by a loss: %v", s, wide.USD[s], wide.Fresh[s])
		}
		for q := range 3 {
			stays, moves, want := float64(wide.P[s*n+q]), 0.0, float64(m.P[is[s]*3+q])
			if q < 2 {
				moves = float64(wide.P[s*n+3+q])
			}
			if math.Abs(stays+moves-want) > 1e-6 {
				t.Errorf("from %d to level %d: %v and %v, without losses %v", s, q, stays, moves, want)
			}
			wantMoves := lost * want
			if is[s] == 2 || q == 2 {
				wantMoves = 0
			}
			if math.Abs(moves-wantMoves) > 1e-6 {
				t.Errorf("from %d to level %d machines are lost with %v, not %v", s, q, moves, wantMoves)
			}
		}
	}
}

// More losses never lower the cost, and never below the cost without losses.
func TestMoreLossesNeverCostLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := zones(rapid.SampledFrom([]float64{0.3, 1, 1.5}).Draw(t, "restart"))
		cost := func(m bidding.Model) float64 {
			table, err := bidding.Build(context.Background(), m, 6, 16)
			if err != nil {
				t.Fatal(err)
			}
			return table.Cost(6, 16, 0, bidding.OnSpot)
		}
		rate := rapid.Float64Range(0.01, 1).Draw(t, "losses per hour")
		none, some := cost(m), cost(bidding.WithMoves(m, rate, time.Hour))
		more := cost(bidding.WithMoves(m, 2*rate, time.Hour))
		if !(none < some && some < more) {
			t.Fatalf("%v without losses, %v with some, %v with twice as many", none, some, more)
		}
	})
}

// This also holds between whole steps.
func TestLongerRestartNeverCostsLess(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		for _, on := range []bidding.Holding{bidding.OnNothing, bidding.OnSpot, bidding.OnDemand} {
			before := 0.0
			for _, restart := range []float64{0.01, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2} {
				m := zones(restart)
				m.Fallback = fallback
				table, err := bidding.Build(context.Background(), m, 6, 16)
				if err != nil {
					t.Fatal(err)
				}
				usd := table.Cost(6, 13, 0, on)
				if usd < before-1e-5 {
					t.Errorf("on %d, with a start of %v steps it costs %v, with a shorter one %v", on, restart, usd, before)
				}
				before = usd
			}
		}
	}
}

// With no slack, a task for which spot never pays runs on demand from the first minute to the last. If spot is
// cheaper, the cost lies between that of all spot and that of all on-demand.
func TestFractionalRestart(t *testing.T) {
	m := bidding.Model{OnDemandUSD: 2, Restart: 0.4, Fallback: true, USD: []float32{5}, P: []float32{1}}
	if usd := built(t, m, 1, 3).Cost(1, 1.4, 0, bidding.OnNothing); math.Abs(usd-2.8) > 1e-5 {
		t.Errorf("1.4 steps on demand cost %v", usd)
	}
	m.USD[0] = 0.5
	if usd := built(t, m, 1, 3).Cost(1, 1.4, 0, bidding.OnNothing); !(usd > 0.7 && usd < 2.8) {
		t.Errorf("1.4 steps cost %v, on spot 0.7", usd)
	}
}

// A market of many levels, groups of which are identical, equals the market with one level for each group.
func TestSplitLevelsCostTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		restart := rapid.SampledFrom([]float64{0, 1}).Draw(t, "restart")
		m := drawModel(t, restart)
		n, parts := m.Levels(), rapid.IntRange(2, 20).Draw(t, "parts")
		wide := m
		wide.USD, wide.P = nil, nil
		for s := range n * parts {
			wide.USD = append(wide.USD, m.USD[s/parts])
			for q := range n * parts {
				wide.P = append(wide.P, m.P[s/parts*n+q/parts]/float32(parts))
			}
		}
		few, err := bidding.Build(context.Background(), m, 5, 12)
		many, err2 := bidding.Build(context.Background(), wide, 5, 12)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for s := range n * parts {
			if a, b := few.Cost(5, 11, s/parts, bidding.OnSpot), many.Cost(5, 11, s, bidding.OnSpot); math.Abs(a-b) > 1e-3*a {
				t.Fatalf("in state %d it costs %v, with split levels %v", s, a, b)
			}
		}
	})
}

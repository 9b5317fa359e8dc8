package planner_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// TestSpotPriceIsForecastOverRun: a spot offer is cheap now, but was expensive most of the time. The plan must expect
// it to become expensive again during the run.
func TestSpotPriceIsForecastOverRun(t *testing.T) {
	p, _ := newPlanner(t)
	first := plan(t, p, planinput.Input{Spec: readJob(t, with(""))})
	offer := first.Of(0)
	if !offer.Offer.Spot || offer.LossesPerHour <= 0 || first.TaskOnDemandUSD[0] < offer.Offer.USDPerHour {
		t.Fatalf("the first plan has %+v, and on demand at %v", offer, first.TaskOnDemandUSD)
	}
	id := strings.TrimSuffix(offer.ID, "/spot")
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	seen := func(steady bool) map[string]record.MarketRecord {
		m := record.MarketRecord{Offer: id, USD: math.Round((offer.Offer.USDPerHour-offer.SurchargeUSD)*1e9) / 1e9}
		at := now.Add(-30 * 24 * time.Hour)
		for i := range 360 { // periods of two hours, each cheap for ten minutes
			dear := 2.5 * m.USD
			if steady {
				dear = m.USD * (1 + 0.0001*float64(i%2))
			}
			m.Prices.Observe(at.Add(time.Duration(i)*2*time.Hour), m.USD)
			m.Prices.Observe(at.Add(time.Duration(i)*2*time.Hour+10*time.Minute), dear)
		}
		m.Prices.Observe(now, m.USD)
		return map[string]record.MarketRecord{id: m}
	}
	calm := plan(t, p, planinput.Input{Spec: readJob(t, with("")), Now: now, Markets: seen(true)})
	if got := calm.Of(0); got.ID != offer.ID || math.Abs(calm.USD-first.USD) > 0.01*first.USD {
		t.Errorf("with a steady price: %s for %v, not %s for %v", got.ID, calm.USD, offer.ID, first.USD)
	}
	wild := plan(t, p, planinput.Input{Spec: readJob(t, with("")), Now: now, Markets: seen(false)})
	if got := wild.Of(0); got.ID == offer.ID && wild.USD < 1.5*first.USD {
		t.Errorf("with a price that rises soon: still %s, for %v", got.ID, wild.USD)
	}
}

func TestPlanKeepsOnDemandTaskOffSpot(t *testing.T) {
	p, _ := newPlanner(t)
	facts := []*planinput.Facts{{Progress: 0.5, OnDemand: true}}
	if got := plan(t, p, planinput.Input{Spec: readJob(t, with("")), Tasks: facts}).Of(0); got.Offer.Spot {
		t.Errorf("planned on %s", got.ID)
	}
	// If the job file allows only spot, an expensive spot machine is better than a failed plan.
	got := plan(t, p, planinput.Input{Spec: readJob(t, with(", market: spot")), Tasks: facts})
	if c := got.Of(0); c == nil || !c.Offer.Spot {
		t.Errorf("a task for spot alone: %+v", got)
	}
}

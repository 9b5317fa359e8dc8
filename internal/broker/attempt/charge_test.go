package attempt

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// bought returns a cluster of two spot machines at 0.10 USD an hour each, with a bid of 0.40 each, and 0.80 USD
// reserved for it.
func bought() (record.Cluster, time.Time) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return record.Cluster{
		ID: "j.0.1", State: record.ClusterReleasing, Offer: apitypes.Offer{Spot: true, USDPerHour: 0.1}, MaxUSD: 0.4, Nodes: make([]record.Node, 2),
		Intended: start.Add(-time.Minute), Launched: start, ReservedUSD: 0.8, LeaseUntil: start.Add(time.Hour),
	}, start
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestClusterIsChargedAtMarketPrice(t *testing.T) {
	cl, start := bought()
	at := func(h float64) time.Time { return start.Add(record.Duration(h)) }
	if cl.Reprice(record.MarketRecord{USD: 0.1, At: at(0.5)}, 0, at(1)) {
		t.Error("the price is unchanged, but something is written")
	}
	for _, m := range []struct{ usd, at, told, want float64 }{
		{0.3, 1, 1.1, 2 * 0.1},             // reported after the change
		{0.2, 2, 2, 2 * (0.1 + 0.3)},       // the price falls
		{5, 3, 3, 2 * (0.1 + 0.3 + 0.2)},   // above the bid: the cloud charges at most the bid
		{0.1, 4, 4, 2 * (0.6 + 0.4)},       // up to the bid
		{0.2, 9, 5, 2 * (0.6 + 0.4 + 0.1)}, // a price dated in the future counts from now
	} {
		if !cl.Reprice(record.MarketRecord{USD: m.usd, At: at(m.at)}, 0, at(m.told)) {
			t.Errorf("%v USD since %v is not recorded", m.usd, m.at)
		}
		if !near(cl.PaidUSD, m.want) {
			t.Errorf("at %v USD: %v paid, want %v", m.usd, cl.PaidUSD, m.want)
		}
	}
	d := DecideReleased(cl, apitypes.Attempt{Outcome: apitypes.OutcomeSucceeded, OfferID: "x/spot"}, at(6))
	if told, ok := d.Emits[0].(events.CapacityFreed); !ok || !near(told.USD, 2*(1.1+0.2)) {
		t.Errorf("%+v is booked", d.Emits)
	}
}

func TestMinimumChargeIsThatOfCloud(t *testing.T) {
	cl, start := bought()
	cl.Reprice(record.MarketRecord{USD: 0.3, At: start.Add(-time.Hour)}, 0, start.Add(time.Second))
	for name, want := range map[string]time.Duration{"aws": time.Minute, "azure": 5 * time.Minute, "kubernetes": 10 * time.Second} {
		cl.Offer.Cloud = name
		if held, usd := booked(cl, start.Add(10*time.Second)); held != want || !near(usd, 2*0.3*want.Hours()) {
			t.Errorf("%s: %v, %v USD", name, held, usd)
		}
	}
	if cl, _ = bought(); true {
		cl.Launched = time.Time{} // launch time unknown: the bid is charged from the intent on
		if _, usd := booked(cl, start.Add(29*time.Minute)); !near(usd, 2*0.4/2) {
			t.Errorf("%v USD for unconfirmed machines", usd)
		}
	}
}

// TestReservationCoversAnyPrice draws random price changes and random times at which the broker learns of them. A
// cluster that ends within its lease must never cost more than was reserved for it.
func TestReservationCoversAnyPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cl, start := bought()
		tick := 10 * time.Minute
		cl.LeaseUntil = cl.Covered(tick, start)
		usd, paid := 0.1, 0.0
		for now := start; ; now = now.Add(tick) {
			// The price changes once between two checks. The second check reports the change.
			changed := now.Add(time.Duration(rapid.IntRange(0, int(tick)).Draw(t, "changed")))
			next := rapid.Float64Range(0.05, 0.6).Draw(t, "usd")
			told := now.Add(tick)
			paid += 2 * (record.Hours(changed.Sub(now))*min(usd, cl.MaxUSD) + record.Hours(told.Sub(changed))*min(next, cl.MaxUSD))
			if cl.LeaseUntil.Before(told.Add(tick)) { // the last check of the lease before the change is reported
				cl.LeaseUntil = cl.Covered(tick, told)
			}
			if cl.LeaseUntil.Before(told.Add(tick)) { // at any price, the cluster stops when its lease ends
				paid += 2 * record.Hours(max(cl.LeaseUntil.Sub(told), 0)) * cl.MaxUSD
				if paid > cl.ReservedUSD+1e-9 {
					t.Fatalf("%v USD paid of %v", paid, cl.ReservedUSD)
				}
				return
			}
			usd = next
			cl.Reprice(record.MarketRecord{USD: usd, At: changed}, 0, told)
		}
	})
}

package broker

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// renewed is a cluster of a job with plenty of budget left after a look at its lease.
func renewed(cl Cluster, now time.Time) Cluster {
	l := losing{job: Job{ID: "j", BudgetUSD: 1000}, cl: cl}
	for _, w := range decideLease(l, Ledger{ReservedUSD: cl.ReservedUSD}, DefaultConfig(), now).Writes {
		if c, ok := w.Value.(Cluster); ok {
			return c
		}
	}
	return cl
}

func leased(reserved float64, lasts time.Duration) (Cluster, time.Time) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return Cluster{
		ID: "j.0.1", State: ClusterUp, Offer: cloud.Offer{Spot: true, USDPerHour: 0.1}, MaxUSD: 0.4, Nodes: make([]Node, 1),
		Intended: start, Launched: start, ReservedUSD: reserved, LeaseUntil: start.Add(lasts),
	}, start
}

// TestALeaseThatWasCountedAtTheOffersPriceIsRenewed: what was set aside before bids counted lasts a quarter as long as the record says.
func TestALeaseThatWasCountedAtTheOffersPriceIsRenewed(t *testing.T) {
	cl, start := leased(0.5, 5*time.Hour)
	if got := renewed(cl, start.Add(5*time.Hour-5*time.Minute)); got.Outcome != "" || !got.LeaseUntil.After(cl.LeaseUntil) {
		t.Errorf("with 999 USD left it is %q until %v: %s", got.Outcome, got.LeaseUntil, got.Reason)
	}
}

// TestALeaseOutlivesAPriceThatIsHeardOfLate: the broker learns after more than an hour that a machine costs four times as much.
func TestALeaseOutlivesAPriceThatIsHeardOfLate(t *testing.T) {
	cl, start := leased(0.4, time.Hour)
	overhead := DefaultConfig().Overhead
	for now := start; cl.Outcome == "" && now.Before(start.Add(4*time.Hour)); now = now.Add(2 * time.Minute) {
		if now.Equal(start.Add(140 * time.Minute)) {
			cl.reprice(MarketRecord{USD: 0.4, At: now.Add(-70 * time.Minute)}, 0, now)
		}
		if now.After(cl.LeaseUntil.Add(-overhead / 2)) {
			cl = renewed(cl, now)
		}
	}
	if cl.Outcome != "" {
		t.Errorf("with 999 USD left it is %q: %s", cl.Outcome, cl.Reason)
	}
}

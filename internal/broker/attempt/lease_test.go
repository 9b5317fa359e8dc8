package attempt

import (
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// renewed returns a cluster of a job with plenty of budget left, after a check of its lease.
func renewed(cl record.Cluster, now time.Time) record.Cluster {
	l := Losing{Job: record.Job{ID: "j", BudgetUSD: 1000}, Cluster: cl}
	d, _ := DecideLease(l, record.Ledger{ReservedUSD: cl.ReservedUSD}, nil, record.DefaultConfig(), now)
	for _, w := range d.Writes {
		if c, ok := w.Value.(record.Cluster); ok {
			return c
		}
	}
	return cl
}

func leased(reserved float64, lasts time.Duration) (record.Cluster, time.Time) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	return record.Cluster{
		ID: "j.0.1", State: record.ClusterUp, Offer: apitypes.Offer{Spot: true, USDPerHour: 0.1}, MaxUSD: 0.4, Nodes: make([]record.Node, 1),
		Intended: start, Launched: start, ReservedUSD: reserved, LeaseUntil: start.Add(lasts),
	}, start
}

// TestLeaseCountedAtOfferPriceIsRenewed: money reserved before bids were counted lasts a quarter as long as the
// record says.
func TestLeaseCountedAtOfferPriceIsRenewed(t *testing.T) {
	cl, start := leased(0.5, 5*time.Hour)
	if got := renewed(cl, start.Add(5*time.Hour-5*time.Minute)); got.Outcome != "" || !got.LeaseUntil.After(cl.LeaseUntil) {
		t.Errorf("with 999 USD left it is %q until %v: %s", got.Outcome, got.LeaseUntil, got.Reason)
	}
}

// TestLeaseSurvivesLatePriceUpdate: the broker learns after more than an hour that a machine costs four times as much.
func TestLeaseSurvivesLatePriceUpdate(t *testing.T) {
	cl, start := leased(0.4, time.Hour)
	overhead := record.DefaultConfig().Overhead
	for now := start; cl.Outcome == "" && now.Before(start.Add(4*time.Hour)); now = now.Add(2 * time.Minute) {
		if now.Equal(start.Add(140 * time.Minute)) {
			cl.Reprice(record.MarketRecord{USD: 0.4, At: now.Add(-70 * time.Minute)}, 0, now)
		}
		if now.After(cl.LeaseUntil.Add(-overhead / 2)) {
			cl = renewed(cl, now)
		}
	}
	if cl.Outcome != "" {
		t.Errorf("with 999 USD left it is %q: %s", cl.Outcome, cl.Reason)
	}
}

// TestNothingIsBoughtForTooLittleBudget: reserved money must last until the first check. Otherwise it would buy a
// machine's boot and nothing else, for more than the budget.
func TestNothingIsBoughtForTooLittleBudget(t *testing.T) {
	cfg := record.DefaultConfig()
	for reserved, want := range map[float64]bool{0.4: true, 0.005: false} {
		st := &Buying{
			Job:     record.Job{ID: "j", State: apitypes.JobRunning, BudgetUSD: 1},
			task:    record.Task{Job: "j", State: record.TaskAdmitted, Attempt: 1},
			Attempt: apitypes.Attempt{Job: "j", Number: 1, Nodes: 1, Offer: apitypes.Offer{USDPerHour: 0.4}, ReservedUSD: reserved},
		}
		d, buys := DecideIntent(st, cfg, time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))
		failed := slices.ContainsFunc(d.Emits, func(e events.Data) bool { f, ok := e.(events.TaskFailed); return ok && f.Final })
		if buys != want || failed == want {
			t.Errorf("with %g USD for a machine of 0.40 an hour it buys: %v, fails: %v", reserved, buys, failed)
		}
	}
}

// TestLeaseIsNotExtendedIntoThePast: the functions were delayed for fifty minutes, and the machine's cost by now
// exceeds what was reserved plus what remains.
func TestLeaseIsNotExtendedIntoThePast(t *testing.T) {
	cl, start := leased(0.1, 15*time.Minute)
	cl.Reprice(record.MarketRecord{USD: 0.2, At: start}, 0, start)
	now := start.Add(70 * time.Minute)
	l := Losing{Job: record.Job{ID: "j", BudgetUSD: 0.1}, Cluster: cl}
	d, more := DecideLease(l, record.Ledger{ReservedUSD: 0.1}, nil, record.DefaultConfig(), now)
	var got record.Cluster
	for _, w := range d.Writes {
		if c, ok := w.Value.(record.Cluster); ok {
			got = c
		}
	}
	if got.Outcome != apitypes.OutcomeBudget || more != 0 || !got.LeaseUntil.Equal(cl.LeaseUntil) {
		t.Errorf("it is %q and leased until %v, %v before the check", got.Outcome, got.LeaseUntil, now.Sub(got.LeaseUntil))
	}
}

package attempt

import (
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// renewed checks the lease of a cluster whose job has plenty of budget left, and returns the cluster as written.
func renewed(cl record.Cluster, now time.Time) record.Cluster {
	l := Losing{Job: record.Job{ID: "j", BudgetUSD: 1000}, Cluster: cl}
	d, _ := DecideLease(l, record.Ledger{ReservedUSD: cl.ReservedUSD}, nil, config.Default(), now)
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

// TestLeaseCountedAtOfferPriceIsRenewed: an older broker calculated the lease from the offer's price instead of the
// bid, so the reserved money lasts only a quarter as long as the record says. The lease must still be renewed.
func TestLeaseCountedAtOfferPriceIsRenewed(t *testing.T) {
	cl, start := leased(0.5, 5*time.Hour)
	if got := renewed(cl, start.Add(5*time.Hour-5*time.Minute)); got.Outcome != "" || !got.LeaseUntil.After(cl.LeaseUntil) {
		t.Errorf("with 999 USD left it is %q until %v: %s", got.Outcome, got.LeaseUntil, got.Reason)
	}
}

// TestLeaseSurvivesLatePriceUpdate: the price of a machine rises to four times, and the broker learns it more than an
// hour later. The cluster must not end, because the budget suffices.
func TestLeaseSurvivesLatePriceUpdate(t *testing.T) {
	cl, start := leased(0.4, time.Hour)
	overhead := config.Default().Overhead
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

// TestNothingIsBoughtForTooLittleBudget: if the reserved money does not last until the first check of the lease, no
// machine is bought and the task fails. The money would pay only for the boot, and the budget would be exceeded.
func TestNothingIsBoughtForTooLittleBudget(t *testing.T) {
	cfg := config.Default()
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

// TestLeaseIsNotExtendedIntoThePast: functions ran fifty minutes late, so the machine already costs more than the
// reserved money and the remaining budget. The attempt must end for its budget, and its lease must not change.
func TestLeaseIsNotExtendedIntoThePast(t *testing.T) {
	cl, start := leased(0.1, 15*time.Minute)
	cl.Reprice(record.MarketRecord{USD: 0.2, At: start}, 0, start)
	now := start.Add(70 * time.Minute)
	l := Losing{Job: record.Job{ID: "j", BudgetUSD: 0.1}, Cluster: cl}
	d, more := DecideLease(l, record.Ledger{ReservedUSD: 0.1}, nil, config.Default(), now)
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

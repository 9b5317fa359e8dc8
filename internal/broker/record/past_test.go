package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestAttemptHoldsNothingIfItEndsBeforeItsAdmission, by the clock of another host.
func TestAttemptHoldsNothingIfItEndsBeforeItsAdmission(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	a := apitypes.Attempt{Admitted: at, Ended: at.Add(-time.Second)}
	if h := record.HoldingOf(record.Job{}, &a, at.Add(time.Hour)); !h.To.Equal(h.From) {
		t.Errorf("it holds from %v to %v", h.From, h.To)
	}
}

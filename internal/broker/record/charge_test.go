package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestServerlessServicesBillNoStart checks that an attempt on a serverless service is charged from the start of its
// application, and any other attempt from its launch.
func TestServerlessServicesBillNoStart(t *testing.T) {
	t.Parallel()
	bought := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	began, end := bought.Add(2*time.Minute), bought.Add(12*time.Minute)
	for service, want := range map[string]time.Duration{
		"": 12 * time.Minute, "emr": 12 * time.Minute, "emr-serverless": 10 * time.Minute, "dataproc-serverless": 10 * time.Minute,
	} {
		cl := record.Cluster{Offer: apitypes.Offer{Service: service, USDPerHour: 1}, Nodes: make([]record.Node, 1),
			Launched: bought, LeaseUntil: end, Running: began}
		if got := cl.Charged(end); got != want.Hours() {
			t.Errorf("%q: %v USD, want %v", service, got, want.Hours())
		}
		cl.Running = time.Time{}
		if got := cl.Charged(end); record.BillsStart(service) != (got > 0) {
			t.Errorf("%q, not begun yet: %v USD", service, got)
		}
	}
}

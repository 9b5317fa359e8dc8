package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// sharedPlan plans two tasks on the machine of the third, a worker, which has no phase.
func sharedPlan() *record.Plan {
	return &record.Plan{Choice: []int32{0, 0, 0}, On: []int32{2, 2, -1},
		Offers: []record.Planned{{ID: "aws/us-east-1/use1-az1/m5.xlarge/spot", Offer: apitypes.Offer{Spot: true}}}}
}

func TestWorkerWaitsWithTheTasksPlannedOnIt(t *testing.T) {
	for phases, want := range map[string]byte{
		string([]byte{record.PhaseReady, record.PhaseWaiting}):       record.PhaseWaiting,
		string([]byte{record.PhaseSucceeded, record.PhaseReady}):     record.PhaseReady,
		string([]byte{record.PhaseSucceeded, record.PhaseSucceeded}): record.PhaseReady,
	} {
		if got := sharedPlan().PhaseOf(record.Progress{Phases: []byte(phases)}, 2); got != want {
			t.Errorf("with tasks %s the worker is %c, not %c", phases, got, want)
		}
	}
}

func TestPriceMovesForWorkers(t *testing.T) {
	plan, market := sharedPlan(), record.MarketID("aws/us-east-1/use1-az1/m5.xlarge/spot")
	bids := record.Bids{USD: []float64{0.1}}
	progress := record.Progress{Phases: []byte{record.PhaseSucceeded, record.PhaseSucceeded}}
	moved, share := bids.Moved(progress, plan, map[string]events.MarketChange{market: {Offer: market, USD: 0.2}})
	if moved.Offer != market || share < 0.99 {
		t.Errorf("moved %+v by %g, although a worker may be bought there", moved, share)
	}
}

func TestWorkersAreDueAtOnceOrLater(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	p := &record.Plan{At: at, From: []float64{0, 0, 0.5}}
	for worker, want := range map[int]time.Time{1: at, 2: at.Add(30 * time.Minute), 3: at} {
		if got := p.Due(worker); !got.Equal(want) {
			t.Errorf("worker %d is due at %v, not %v", worker, got, want)
		}
	}
}

package gcp_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
)

// A machine is put in the reservation that it was planned on, and costs nothing more there. Where that has no room any
// more it is asked again, and one that is gone is room that is gone: the task is not to blame.
func TestALaunchIsPutInItsReservation(t *testing.T) {
	w := newWorldOf(t, gce.Config{Price: func(gce.Bill) float64 { return 0.067 }}, nil)
	r := w.gce.Reserve("us-central1-a", "mine", "e2-standard-2", 2, true)
	w.gce.Reserve("us-central1-a", "common", "e2-standard-2", 1, false)
	on := onDemand
	on.Reservation, on.Reserved = gcp.ReservationID("us-central1-a", "mine", true), 2
	launch := func(cluster string, nodes int, o apitypes.Offer) error {
		_, err := w.gcp.Launch(t.Context(), spec(cluster, nodes, o))
		return err
	}
	if err := launch("a", 2, on); err != nil {
		t.Fatal(err)
	}
	if err := launch("b", 1, on); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("one that is full: %v", err)
	}
	open := onDemand
	open.Reservation, open.Reserved = gcp.ReservationID("us-central1-a", "common", false), 1
	if err := launch("c", 1, open); err != nil {
		t.Fatal(err)
	}
	paid := 0
	for _, b := range w.gce.Bills() {
		if b.USDPerHour > 0 {
			paid++
		}
	}
	if n := len(w.gce.Bills()); n != 3 || paid != 0 {
		t.Errorf("%d machines, of which %d cost something", n, paid)
	}
	gone := onDemand
	gone.Reservation = gcp.ReservationID("us-central1-a", "gone", true)
	if err := launch("d", 1, gone); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("one that is gone: %v", err)
	}
	if err := w.gcp.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.gce.Occupy(r, 1) // another was faster
	if err := launch("e", 2, on); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("one that another uses: %v", err)
	}
	if err := launch("f", 1, on); err != nil {
		t.Error(err)
	}
	named := onDemand
	named.Reservation = "e2-standard-2-us-central1" // of the settings: a price, of which Google knows nothing
	if err := launch("g", 1, named); err != nil {
		t.Error(err)
	}
}

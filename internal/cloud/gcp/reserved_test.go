package gcp_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A machine must run on the reservation that it was planned on, and costs nothing more. A full reservation is a
// transient failure, and a missing one is missing capacity. The task must not be blamed for either.
func TestLaunchRequestsReservation(t *testing.T) {
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
		t.Errorf("a full reservation: %v", err)
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
		t.Errorf("%d machines, %d of which cost something", n, paid)
	}
	gone := onDemand
	gone.Reservation = gcp.ReservationID("us-central1-a", "gone", true)
	if err := launch("d", 1, gone); cloud.KindOf(err) != cloud.Capacity {
		t.Errorf("a missing reservation: %v", err)
	}
	if err := w.gcp.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.gce.Occupy(r, 1) // another user takes the last machine
	if err := launch("e", 2, on); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("a reservation that another user occupies: %v", err)
	}
	if err := launch("f", 1, on); err != nil {
		t.Error(err)
	}
	named := onDemand
	named.Reservation = "e2-standard-2-us-central1" // from the settings: only a price, unknown to Google
	if err := launch("g", 1, named); err != nil {
		t.Error(err)
	}
}

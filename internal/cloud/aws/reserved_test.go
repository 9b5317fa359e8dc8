package aws_test

import "testing"

// A machine must run on the capacity reservation that it was planned on. Reserved instances are only a price, so a
// launch on them names nothing.
func TestLaunchRequestsReservation(t *testing.T) {
	w := newWorld(t, nil)
	for id, want := range map[string]string{"cr-0123": "cr-0123", "ri-t3.micro-us-east-1": "", "": ""} {
		offer := onDemand
		offer.Reservation, offer.Reserved = id, 3
		w.launch(w.spec("c-"+id, offer, 1))
		in := w.proxy.request("RunInstances")
		if got := in.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"); got != want {
			t.Errorf("an offer on %q requests %q", id, got)
		}
	}
}

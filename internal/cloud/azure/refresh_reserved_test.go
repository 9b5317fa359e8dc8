package azure_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// A refresh must replace the catalogue's reservations by the subscription's current ones. Reservations from the
// settings stay. If the call fails, all stay.
func TestReservations(t *testing.T) {
	r, server, m := newRefresher(t, arm.Config{})
	named := catalog.Reserved{Cloud: "azure", ID: "x", Region: "eastus", InstanceType: "Standard_D2s_v5", Count: 1, By: catalog.BySettings}
	old := catalog.Reserved{Cloud: "azure", ID: "crg-a--b--gone", Region: "eastus", InstanceType: "Standard_D2s_v5", Count: 1, By: "capacity reservation"}
	var err error
	if r.Base, err = r.Base.WithReserved(func(*catalog.Reserved) bool { return true }, []catalog.Reserved{named, old}); err != nil {
		t.Fatal(err)
	}
	server.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "d2", Location: "eastus", Zone: "2", Size: "Standard_D2s_v5", Count: 3, Others: 1})
	c, res := refreshed(t, r, m)
	want := []catalog.Reserved{
		{Cloud: "azure", ID: "crg-capacity--team--d2--2", Region: "eastus", InstanceType: "Standard_D2s_v5", Count: 2, By: "capacity reservation"}, named,
	}
	if got := c.Reserved(); !slices.Equal(got, want) || len(res.Kept) > 0 {
		t.Errorf("%+v, kept %v", got, res.Kept)
	}
	found, err := c.Lookup("azure/eastus/Standard_D2s_v5")
	if err != nil || !want[0].Covers(&found.Offer) {
		t.Errorf("no offer runs on it: %+v, %v", found.Offer, err)
	}
	server.Deny("Microsoft.Compute/capacityReservationGroups/read")
	if c, res = refreshed(t, r, m); !slices.Equal(c.Reserved(), want) ||
		!slices.ContainsFunc(res.Kept, func(s string) bool { return strings.Contains(s, "reserved capacity of the subscription") }) {
		t.Errorf("%+v, kept %v", c.Reserved(), res.Kept)
	}
}

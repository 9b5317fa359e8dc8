package azure_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A machine must run in its reservation's group and zone, and costs nothing more there. The deployment's own machines
// do not reduce the free count; machines of others do.
func TestLaunchRequestsReservation(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	mine := &arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "d2", Location: "eastus", Zone: "2", Size: "Standard_D2s_v5", Count: 3, Others: 1}
	w.arm.Reserve(mine)
	w.arm.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "full", Location: "eastus", Size: "Standard_D2s_v5", Count: 1, Others: 1})
	w.arm.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "soon", Location: "eastus", Size: "Standard_D2s_v5", Count: 1, Creating: true})
	w.arm.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "other--team", Name: "twofold", Location: "eastus", Size: "Standard_D2s_v5", Count: 1})
	w.arm.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "far", Name: "away", Location: "northcentralus", Size: "Standard_D2s_v5", Count: 1})
	const id = "crg-capacity--team--d2--2"
	look := func(free int) {
		t.Helper()
		got, err := w.azure.Reservations(t.Context())
		if len(got) != 3 { // includes full ones and those without a name, because they are paid for as well
			t.Errorf("%+v", got)
		}
		got = slices.DeleteFunc(got, func(c azure.Capacity) bool { return c.Free == 0 || c.ID == "" })
		if err != nil || len(got) != 1 || got[0].ID != id || got[0].Free != free || got[0].Region != "eastus" || got[0].InstanceType != "Standard_D2s_v5" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	look(2)
	offer := onDemand
	offer.Zone, offer.Reservation, offer.Reserved = "", id, 2
	w.launch(spec("a", offer, 2))
	look(2)
	for _, b := range w.arm.Bills() {
		if b.USDPerHour != 0 {
			t.Errorf("%+v", b)
		}
	}
	if n := len(w.arm.Bills()); n != 2 {
		t.Errorf("%d machines", n)
	}
	gone := offer
	gone.Reservation = "crg-capacity--team--gone--3"
	if _, err := w.azure.Launch(t.Context(), spec("b", gone, 1)); cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "capacity reservation") {
		t.Errorf("a missing reservation: %v", err)
	}
	named := offer
	named.Reservation = "Standard_D2s_v5-eastus" // from the settings: only a price, unknown to Azure
	w.launch(spec("c", named, 1))
	bills := w.arm.Bills()
	if paid := bills[len(bills)-1]; paid.USD(time.Now().Add(time.Hour)) <= 0 {
		t.Errorf("%+v", paid)
	}
	if left := w.arm.Unpublished(); len(left) > 0 {
		t.Errorf("not as in Azure's documentation: %v", left)
	}
}

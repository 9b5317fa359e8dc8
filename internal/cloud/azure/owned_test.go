package azure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
)

// A check must report all owned capacity, used up or not, and how much of it others use. For plans, it reports
// Azure's figure of the used part. If a right is missing, it must name the role that has it.
func TestOwned(t *testing.T) {
	size := arm.DefaultSizes()[0]
	size.Series, size.Ratio = "DSv5 Series", "2"
	r, server, _ := newRefresher(t, arm.Config{Sizes: []arm.Size{size}})
	server.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "d2", Location: "eastus", Size: size.Name, Count: 3, Others: 1})
	server.Buy(arm.ReservedInstances{Size: size.Name, Location: "eastus", Count: 3})
	server.Commit(arm.Plan{ID: "a", USD: 1.5, Used: 0.25})
	tell := func() (all []string) {
		t.Helper()
		told, lacks := azure.Owned(t.Context(), r.Cloud)
		for _, k := range told {
			line := fmt.Sprintf("%s: %v of %v for %s%s", k.ID, k.Has, k.Total, k.InstanceType, k.What)
			if k.UsedLastDay != nil {
				line += fmt.Sprintf(", %v used", *k.UsedLastDay)
			}
			all = append(all, line)
		}
		for _, l := range lacks {
			if l.Fatal {
				t.Errorf("%+v", l)
			}
			all = append(all, l.What+" | "+l.Mend)
		}
		return all
	}
	want := []string{
		"crg-capacity--team--d2: 2 machines of 3 machines for Standard_D2s_v5",
		"ri-DSv5-Series-eastus: nothing of 6 normalised units for DSv5 Series machines",
		"sp-a: nothing of 1.5 USD an hour for machines of any type, 0.25 used",
	}
	if got := tell(); !slices.Equal(got, want) {
		t.Errorf("reported\n%s", strings.Join(got, "\n"))
	}
	for action, mend := range map[string]string{
		"Microsoft.BillingBenefits/savingsPlanOrders/savingsPlans/read": "az role assignment create --assignee WHO --role 'Savings plan Reader' --scope /providers/Microsoft.BillingBenefits",
		"Microsoft.Capacity/reservationOrders/reservations/read":        "az role assignment create --assignee WHO --role 'Reservations Reader' --scope /providers/Microsoft.Capacity",
		"Microsoft.Compute/capacityReservationGroups/read":              "az role assignment create --assignee WHO --role 'Reader' --scope /subscriptions/" + arm.DefaultSubscription,
	} {
		server.ClearTroubles()
		server.Deny(action)
		got := tell()
		if last := got[len(got)-1]; !slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, "is unknown: AuthorizationFailed") && strings.Contains(s, action) && strings.HasSuffix(s, " | "+mend)
		}) {
			t.Errorf("%s: %s", action, last)
		}
	}
}

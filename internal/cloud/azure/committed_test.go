package azure_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// A savings plan for the subscription counts with the part that others do not use, at the rates of its term. Capacity
// reservations and on-demand machines of others use it; spot machines do not.
func TestSavingsPlans(t *testing.T) {
	r, server, m := newRefresher(t, arm.Config{})
	until := time.Now().Add(100 * 24 * time.Hour).Truncate(time.Second).UTC()
	server.Commit(
		arm.Plan{ID: "a", USD: 1, Until: until, Used: 0.3},
		arm.Plan{ID: "b", USD: 0.5, Term: "P3Y", Scope: "Single", Group: "TradeWind"},
		arm.Plan{ID: "c", USD: 1, Scope: "Single", Of: "somebody-else"},
		arm.Plan{ID: "d", USD: 1, Scope: "Single", Group: "elsewhere"},
		arm.Plan{ID: "e", USD: 1, Scope: "ManagementGroup"},
		arm.Plan{ID: "f", USD: 1, Currency: "EUR"},
		arm.Plan{ID: "g", USD: 1, State: "Cancelled"},
		arm.Plan{ID: "h", USD: 1, Until: time.Now().Add(-time.Hour)},
		arm.Plan{ID: "i", USD: 1, Starts: time.Now().Add(time.Hour)},
		arm.Plan{ID: "j", USD: 1, Term: "P5Y"},
		arm.Plan{ID: "k", USD: 0.01},
	)
	server.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "d2", Location: "eastus", Size: "Standard_D2s_v5", Count: 3, Others: 3})
	server.RunOthers("Standard_D2s_v5", "westeurope", 2, false)
	server.RunOthers("Standard_D2s_v5", "westeurope", 5, true)
	server.RunOthers("Standard_D2ps_v5", "eastus", 1, false) // no plan covers it
	c, res := refreshed(t, r, m)
	got := map[string]catalog.Reserved{}
	for _, k := range c.Reserved() {
		got[k.ID] = k
	}
	rate := catalog.DemandUSD(0.0663)
	for id, want := range map[string]apitypes.Amount{
		"sp-a": catalog.SupplyUSD(1).Minus(rate.Times(5)), "sp-b": catalog.SupplyUSD(0.5),
		"sp-k": catalog.SupplyUSD(0.01),
	} {
		if k := got[id]; k.By != catalog.BySavingsPlan || k.Region != "" || k.Commitment == nil || k.Has() != want {
			t.Errorf("%s: %+v, want %v", id, k, want)
		}
	}
	if len(got) != 3 || len(res.Kept) > 0 || !got["sp-a"].Until.Equal(until) {
		t.Errorf("%+v, kept %v", got, res.Kept)
	}
	for offer, takes := range map[string]apitypes.Amount{
		"azure/eastus/Standard_D2s_v5": rate, "azure/westeurope/Standard_D2s_v5": rate, "azure/eastus/Standard_D2ps_v5": {},
	} {
		found, err := c.Lookup(offer)
		if err != nil {
			t.Fatal(err)
		}
		a := got["sp-a"]
		if is, ok := a.Takes(&found.Offer); is != takes || ok == takes.IsZero() {
			t.Errorf("%s takes %v of a, %v", offer, is, ok)
		}
	}
	if three := got["sp-b"].Commitment.Takes["eastus/Standard_D2s_v5"]; three != catalog.DemandUSD(0.0442) {
		t.Errorf("the three-year plan: %v", three)
	}
	for _, on := range []func(){
		func() { server.Deny("Microsoft.BillingBenefits/savingsPlanOrders/savingsPlans/read") },
		func() {
			server.Make(arm.Trouble{Kind: "GET prices", After: 10, Times: -1, Fault: &arm.Fault{Status: 500}})
		},
	} {
		server.ClearTroubles()
		on()
		before := c.Reserved()
		c, res = refreshed(t, r, m)
		if !slices.ContainsFunc(res.Kept, func(s string) bool { return strings.HasPrefix(s, "savings plans: ") }) ||
			len(c.Reserved()) != len(before) {
			t.Errorf("%+v, kept %v", c.Reserved(), res.Kept)
		}
	}
}

// A plan was cancelled. The next refresh must remove it, and keep reservations from the settings.
func TestCancelledSavingsPlanIsRemoved(t *testing.T) {
	r, server, m := newRefresher(t, arm.Config{})
	old := catalog.Reserved{Cloud: "azure", ID: "sp-old", By: catalog.BySavingsPlan, Commitment: &catalog.Commitment{
		What: "machines of any type", Has: catalog.SupplyUSD(1),
		Takes: map[string]apitypes.Amount{"eastus/Standard_D2s_v5": catalog.DemandUSD(0.05)}}}
	named := catalog.Reserved{Cloud: "azure", ID: "x", Region: "eastus", InstanceType: "Standard_D2s_v5", Count: 1, By: catalog.BySettings}
	var err error
	if r.Base, err = r.Base.WithReserved(func(*catalog.Reserved) bool { return true }, []catalog.Reserved{old, named}); err != nil {
		t.Fatal(err)
	}
	c, _ := refreshed(t, r, m)
	if all := c.Reserved(); len(all) != 1 || all[0].ID != "x" {
		t.Errorf("%+v", all)
	}
	if n := server.Calls("GET prices"); n == 0 {
		t.Error("no prices were read")
	}
}

// A reservation with flexibility is for all sizes of its group, by Azure's own ratios. Another reservation is only
// for its type. Reservations pay for machines of others before plans do, possibly for a part of a machine.
func TestReservedInstances(t *testing.T) {
	small, large := arm.DefaultSizes()[0], arm.DefaultSizes()[0]
	small.Series, small.Ratio = "DSv5 Series", "2"
	large.Name, large.VCPU, large.MemoryGiB, large.USD, large.OneYearUSD = "Standard_D4s_v5", 4, 16, 0.192, 0.1326
	large.Series, large.Ratio = "DSv5 Series", "4"
	odd := arm.DefaultSizes()[1]
	odd.Series, odd.Ratio = "DPSv5 Series", "0.3636"
	r, server, m := newRefresher(t, arm.Config{Sizes: []arm.Size{small, large, odd}})
	until := time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()
	server.Buy(
		arm.ReservedInstances{Size: small.Name, Location: "EastUS", Count: 3},
		arm.ReservedInstances{Size: large.Name, Location: "eastus", Count: 2, Until: until, Scope: "Single", Of: arm.DefaultSubscription},
		arm.ReservedInstances{Size: small.Name, Location: "westeurope", Count: 2, Flexible: "Off"},
		arm.ReservedInstances{Size: odd.Name, Location: "eastus", Count: 1},
		arm.ReservedInstances{Size: small.Name, Location: "eastus", Count: 9, Scope: "Single", Of: "somebody-else"},
		arm.ReservedInstances{Size: small.Name, Location: "eastus", Count: 9, Kind: "SqlDatabases"},
		arm.ReservedInstances{Size: small.Name, Location: "eastus", Count: 9, State: "Expired"},
		arm.ReservedInstances{Size: small.Name, Location: "northcentralus", Count: 9},
		arm.ReservedInstances{Size: small.Name, Location: "eastus", Count: 9, Until: time.Now().Add(-time.Hour)},
	)
	server.RunOthers(small.Name, "eastus", 1, false)
	server.RunOthers(small.Name, "westeurope", 3, false) // one more than is reserved
	server.Reserve(&arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "d4", Location: "eastus", Size: large.Name, Count: 1, Others: 1})
	server.Commit(arm.Plan{ID: "a", USD: 1})
	c, res := refreshed(t, r, m)
	said := map[string]string{}
	for _, k := range c.Reserved() {
		said[k.ID] = k.Has().String() + " of " + k.What()
	}
	want := map[string]string{
		"ri-DSv5-Series-eastus":  "8 normalised units of DSv5 Series machines", // 3 × 2 + 2 × 4, without 2 and 4
		"ri-DPSv5-Series-eastus": "36.36 normalised units of DPSv5 Series machines",
		"sp-a": catalog.SupplyUSD(1).Minus(catalog.DemandUSD(0.0663)).String() +
			" of machines of any type",
	}
	if !maps.Equal(said, want) || len(res.Kept) > 0 {
		t.Errorf("%v, kept %v", said, res.Kept)
	}
	for _, k := range c.Reserved() {
		for offer, takes := range map[string]int64{"azure/eastus/Standard_D2s_v5": 200, "azure/eastus/Standard_D4s_v5": 400, "azure/westeurope/Standard_D2s_v5": 0} {
			found, err := c.Lookup(offer)
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := k.Takes(&found.Offer); k.ID == "ri-DSv5-Series-eastus" && (a.CentiUnits != takes || ok != (takes > 0) || !k.Until.Equal(until)) {
				t.Errorf("%s takes %v, %v, until %v", offer, a, ok, k.Until)
			}
		}
	}
	server.Deny("Microsoft.Capacity/catalogs/read")
	before := c.Reserved()
	if c, res = refreshed(t, r, m); len(c.Reserved()) != len(before) || len(res.Kept) != 1 || !strings.HasPrefix(res.Kept[0], "reserved instances: ") {
		t.Errorf("%+v, kept %v", c.Reserved(), res.Kept)
	}
}

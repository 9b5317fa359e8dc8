package sellable_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Offers must be in the markets in which Google sells their type. Sources: Compute Engine documentation,
// "Accelerator-optimized machine family", "Consumption option availability by machine type"; "Using the IDPF network
// interface" (bare metal).
func TestGoogleOffersAreSoldInTheirMarket(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	spotOnly := map[string]bool{
		"a3-highgpu-1g": true, "a3-highgpu-2g": true, "a3-highgpu-4g": true, "a3-ultragpu-8g": true, "a4-highgpu-8g": true,
	}
	seen, metal := map[string]int{}, 0
	for o := range c.All() {
		if o.Cloud != "gcp" {
			continue
		}
		if why := sellable.Refused(o); why != "" {
			metal++
			continue
		}
		usd, onDemand := o.USDPerHour(catalog.OnDemand)
		if onDemand == spotOnly[o.InstanceType] {
			t.Fatalf("%s is offered on demand for %g USD: %t", o.ID(), usd, onDemand)
		}
		if spotOnly[o.InstanceType] {
			seen[o.InstanceType]++
			if _, err := c.Lookup(o.ID() + "/on-demand"); err == nil {
				t.Fatalf("%s can be looked up on demand", o.ID())
			}
		}
	}
	t.Logf("not offered on demand: %v; refused: %d", seen, metal)
	if len(seen) == 0 {
		t.Error("the catalogue has no H100")
	}
	if err := c.Visit(catalog.Query{Clouds: []string{"gcp"}, Market: catalog.OnDemand}, func(m *catalog.Match) bool {
		if spotOnly[m.InstanceType] {
			t.Errorf("a search for on-demand machines finds %s", m.ID())
		}
		return !t.Failed()
	}); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{"c3-standard-192-metal": true, "c3-standard-176": false, "a3-highgpu-8g": false} {
		if why := sellable.Refused(catalog.Offer{Cloud: "gcp", InstanceType: name}); (why != "") != want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

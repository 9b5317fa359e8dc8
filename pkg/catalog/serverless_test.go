package catalog_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestServerlessRatesPriceAWorker(t *testing.T) {
	for _, c := range []struct {
		service  catalog.Service
		vcpu, gb float64
		want     float64
	}{
		{catalog.EMRServerless, 4, 16, 4*0.052624 + 16*0.0057785},
		// On the pricing page, the default driver and each default executor have 4 DCUs.
		{catalog.DataprocServerless, 4, 16, 4 * 0.06},
		{catalog.DataprocServerless, 1, 10, (0.6 + 0.8 + 0.4) * 0.06},
	} {
		rates := catalog.ServerlessRates(c.service)
		if len(rates) == 0 {
			t.Fatalf("no rates of %s", c.service)
		}
		for _, r := range rates {
			if got := r.USDPerHour(c.vcpu, c.gb); math.Abs(got-c.want) > 1e-9 || r.BillingMinimumSeconds != 60 {
				t.Errorf("%+v: %v, want %v", r, got, c.want)
			}
		}
	}
	if rates := catalog.ServerlessRates(catalog.EMR); len(rates) != 0 {
		t.Errorf("emr has machines, and rates %v", rates)
	}
}

// The region of each rate must exist in the catalogue.
func TestServerlessRegionsExist(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []catalog.Service{catalog.EMRServerless, catalog.DataprocServerless} {
		for _, r := range catalog.ServerlessRates(s) {
			if !slices.Contains(c.Regions(r.Cloud), r.Region) {
				t.Errorf("%+v", r)
			}
		}
	}
}

package catalog_test

import (
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestAttachedUSD(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]float64{ // prices with a disk of 73 GiB, on demand and on spot
		"aws": {0.013, 0.013}, "gcp": {0.015, 0.0125}, "azure": {0.0125, 0.0125}, "lambda": {0, 0},
	}
	for _, cloud := range c.Clouds() {
		usd, ok := want[cloud]
		for i, m := range []catalog.Market{catalog.OnDemand, catalog.Spot} {
			if got := catalog.AttachedUSD(cloud, 73, m); !ok || math.Abs(got-usd[i]) > 1e-9 {
				t.Errorf("%s %s: %v, not %v", cloud, m, got, usd[i])
			}
		}
	}
}

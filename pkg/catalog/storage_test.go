package catalog_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestStorageUSDOfEveryRegion(t *testing.T) {
	for place, want := range map[string]float64{
		"aws:us-east-1": 0.023, "aws:sa-east-1": 0.0405, "aws:ap-south-1": 0.025, "gcp:us-central1": 0.020,
		"gcp:us-west3": 0.023, "azure:westeurope": 0.0196, "azure:moon": 0.0208, "lambda:us-east-1": 0, "": 0,
	} {
		if got := catalog.StorageUSD(place); got != want {
			t.Errorf("%s: %v, want %v", place, got, want)
		}
	}
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, cloud := range []string{"aws", "gcp", "azure"} {
		for _, region := range c.Regions(cloud) {
			if usd := catalog.StorageUSD(cloud + ":" + region); usd < 0.01 || usd > 0.06 {
				t.Errorf("%s:%s: %v", cloud, region, usd)
			}
		}
	}
}

package clouds

import (
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// line is an offer, on demand and, if spot is not 0, on spot.
type line struct {
	cloud, region, zone, kind string
	vcpu, gib                 float64
	gpu                       string
	usd, spot                 float64
}

// sold are the offers of the clouds of the rehearsal. Prices make a different cloud cheapest for each task, considering
// that machines of one size are not equally fast: AWS for the smallest machine, Google Cloud for the next, Azure's spot
// market for the one after that, and only Lambda has an A10. For each task but the last, the second cheapest offer is
// on another cloud.
var sold = []line{
	{"aws", "us-east-1", "use1-az1", "m5.large", 2, 8, "", 0.096, 0},
	{"aws", "us-east-1", "use1-az2", "m5.2xlarge", 8, 32, "", 0.384, 0.30},
	{"gcp", googleRegion, googleZone, "n2-standard-4", 4, 16, "", 0.12, 0},
	{"gcp", googleRegion, googleZone, "n2-standard-16", 16, 64, "", 0.60, 0.35}, // for the job in the bucket
	{"gcp", googleRegion, "us-central1-b", "n2-standard-16", 16, 64, "", 0.62, 0.36},
	{"azure", azureRegion, "", "Standard_D4s_v5", 4, 16, "", 0.17, 0},
	{"azure", azureRegion, "", "Standard_D8s_v5", 8, 32, "", 0.39, 0.06},
	{"lambda", lambdaRegion, "", "gpu_1x_a10", 30, 200, "A10", 0.75, 0},
}

// offers returns the catalogue's offers.
func offers(sold []line) []catalog.Offer {
	var out []catalog.Offer
	for _, s := range sold {
		o := catalog.Offer{
			Cloud: s.cloud, Region: s.region, Zone: s.zone, InstanceType: s.kind, VCPU: s.vcpu, MemoryGiB: s.gib,
			Accelerator: s.gpu, OnDemandUSD: s.usd, SpotUSD: s.spot, HasSpot: s.spot > 0,
		}
		if s.gpu != "" {
			o.AcceleratorCount = 1
		}
		out = append(out, o)
	}
	return out
}

// sizes returns the offers of the emulated Azure.
func sizes(sold []line) []arm.Size {
	var out []arm.Size
	for _, s := range sold {
		if s.cloud == "azure" {
			out = append(out, arm.Size{
				Name: s.kind, Family: "standardDSv5Family", VCPU: int(s.vcpu), MemoryGiB: s.gib,
				Zones: []string{"1", "2"}, USD: s.usd, SpotUSD: s.spot,
			})
		}
	}
	return out
}

// priceOf returns the price per hour of a machine, USD.
func priceOf(cloud, kind string, spot bool) float64 {
	for _, s := range sold {
		if s.cloud == cloud && s.kind == kind {
			if spot {
				return s.spot
			}
			return s.usd
		}
	}
	return 0
}

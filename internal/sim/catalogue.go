package sim

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// listing is one machine type in one zone, as a world sells it. Prices and sizes are of the real clouds' order; what
// matters is that zones, types and clouds differ, and that spot is cheaper.
type listing struct {
	cloud, region, zone, instanceType string
	vcpu                              float64
	onDemandUSD, spotUSD              float64
}

// id is the catalogue's ID of a listing, without a market.
func (l listing) id() string {
	return l.cloud + "/" + l.region + "/" + l.zone + "/" + l.instanceType
}

func (l listing) offer(spot bool, usd float64) cloud.Offer {
	return cloud.Offer{Cloud: l.cloud, Region: l.region, Zone: l.zone, InstanceType: l.instanceType, Spot: spot,
		USDPerHour: usd}
}

// catalogue lists what a world sells. A big machine is faster for tasks whose author says so, never slower.
func catalogue() []listing {
	type zone struct{ cloud, region, zone string }
	zones := []zone{
		{"aws", "us-east-1", "use1-az1"}, {"aws", "us-east-1", "use1-az2"}, {"aws", "eu-west-1", "euw1-az1"},
		{"azure", "eastus", "eastus-1"}, {"azure", "eastus", "eastus-2"},
		{"gcp", "us-central1", "us-central1-a"}, {"gcp", "us-central1", "us-central1-b"},
		{"gcp", "europe-west4", "europe-west4-a"},
	}
	small := map[string]string{"aws": "m5.xlarge", "azure": "Standard_D4s_v3", "gcp": "n1-standard-4"}
	big := map[string]string{"aws": "c5.4xlarge", "azure": "Standard_F16s_v2", "gcp": "n1-standard-16"}
	list := make([]listing, 0, 2*len(zones))
	for i, z := range zones {
		tilt := 1 + 0.03*float64(i) // no two zones cost the same
		list = append(list,
			listing{z.cloud, z.region, z.zone, small[z.cloud], 4, 0.19 * tilt, 0.07 * tilt},
			listing{z.cloud, z.region, z.zone, big[z.cloud], 16, 0.68 * tilt, 0.26 * tilt},
		)
	}
	return list
}

// bigTypes are the machine types that a task may be faster on.
func bigTypes() []string { return []string{"c5.4xlarge", "Standard_F16s_v2", "n1-standard-16"} }

// cloudNames lists the clouds of a world in order.
func cloudNames() []string {
	var names []string
	for _, l := range catalogue() {
		names = append(names, l.cloud)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

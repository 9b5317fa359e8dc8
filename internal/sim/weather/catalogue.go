package weather

import (
	"slices"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Listing is one machine type in one zone, as a world sells it. Prices and sizes are in the range of those of real
// clouds. Only two facts matter: zones, types and clouds differ, and spot is cheaper.
type Listing struct {
	Cloud, Region, Zone, InstanceType string
	VCPU                              float64
	OnDemandUSD, SpotUSD              float64
	Accelerator                       string
	Accelerators                      float64

	id string // set in the catalogue
}

// ID is the catalogue's ID of a listing, without a market.
func (l *Listing) ID() string {
	if l.id != "" {
		return l.id
	}
	return l.Cloud + "/" + l.Region + "/" + l.Zone + "/" + l.InstanceType
}

// Offer returns the offer of a listing on a market, at a price.
func (l *Listing) Offer(spot bool, usd float64) apitypes.Offer {
	return apitypes.Offer{Cloud: l.Cloud, Region: l.Region, Zone: l.Zone, InstanceType: l.InstanceType, Spot: spot,
		USDPerHour: usd, Accelerator: l.Accelerator, AccelCount: l.Accelerators}
}

// Catalogue returns the offers of a world. The list is shared and must not be changed. A large machine is faster for
// tasks whose author states that, and never slower.
var Catalogue = sync.OnceValue(catalogue)

// Find returns the listing with an ID.
func Find(id string) (l Listing, ok bool) {
	for _, l := range Catalogue() {
		if l.ID() == id {
			return l, true
		}
	}
	return Listing{}, false
}

func catalogue() []Listing {
	type zone struct{ cloud, region, zone string }
	zones := []zone{
		{"aws", "us-east-1", "use1-az1"}, {"aws", "us-east-1", "use1-az2"}, {"aws", "eu-west-1", "euw1-az1"},
		{"azure", "eastus", "eastus-1"}, {"azure", "eastus", "eastus-2"},
		{"gcp", "us-central1", "us-central1-a"}, {"gcp", "us-central1", "us-central1-b"},
		{"gcp", "europe-west4", "europe-west4-a"},
	}
	small := map[string]string{"aws": "m5.xlarge", "azure": "Standard_D4s_v3", "gcp": "n1-standard-4"}
	big := map[string]string{"aws": "c5.4xlarge", "azure": "Standard_F16s_v2", "gcp": "n1-standard-16"}
	fast := map[string]string{"aws": "p3.2xlarge", "azure": "Standard_NC6s_v3", "gcp": "n1-standard-8-v100"}
	list := make([]Listing, 0, 3*len(zones))
	for i, z := range zones {
		tilt := 1 + 0.03*float64(i) // no two zones cost the same
		list = append(list,
			Listing{z.cloud, z.region, z.zone, small[z.cloud], 4, 0.19 * tilt, 0.07 * tilt, "", 0, ""},
			Listing{z.cloud, z.region, z.zone, big[z.cloud], 16, 0.68 * tilt, 0.26 * tilt, "", 0, ""},
		)
	}
	for i, z := range zones { // after the others, so that their draws do not change
		tilt := 1 + 0.03*float64(i)
		list = append(list,
			Listing{z.cloud, z.region, z.zone, fast[z.cloud], 8, 2.5 * tilt, FastUSD * tilt, Fast, 1, ""})
	}
	for i := range list {
		list[i].id = list[i].ID()
	}
	return list
}

// Fast is the accelerator in the catalogue, and FastUSD the initial price of an hour on spot.
const (
	Fast    = "V100"
	FastUSD = 0.8
)

// BigTypes returns the machine types on which a task may be faster.
func BigTypes() []string { return []string{"c5.4xlarge", "Standard_F16s_v2", "n1-standard-16"} }

// CloudNames lists the clouds of a world in order.
func CloudNames() []string {
	var names []string
	for _, l := range Catalogue() {
		names = append(names, l.Cloud)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

package catalog

import (
	"fmt"
	"math"
	"strings"
)

// Market is the way capacity is sold: on demand or spot.
type Market uint8

// The markets. AnyMarket, the zero value, is only valid in a [Query] and in an [OfferID] without a market.
const (
	AnyMarket Market = iota
	OnDemand
	Spot
)

// String returns "any", "on-demand" or "spot": the words used in IDs, files and tables.
func (m Market) String() string {
	switch m {
	case OnDemand:
		return "on-demand"
	case Spot:
		return "spot"
	default:
		return "any"
	}
}

// ParseMarket reads the words of [Market.String], and "auto" and "" as AnyMarket.
func ParseMarket(s string) (Market, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "any", "auto":
		return AnyMarket, nil
	case "on-demand", "ondemand", "on_demand":
		return OnDemand, nil
	case "spot", "preemptible":
		return Spot, nil
	}
	return AnyMarket, fmt.Errorf("unknown market %q: want spot, on-demand or any", s)
}

// MarshalText writes the word of [Market.String].
func (m Market) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what [ParseMarket] reads.
func (m *Market) UnmarshalText(text []byte) error {
	parsed, err := ParseMarket(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

// Arch is a processor architecture, named like Go's GOARCH values.
type Arch string

// The architectures that clouds sell.
const (
	AMD64 Arch = "amd64"
	ARM64 Arch = "arm64"
)

func archName(arm bool) Arch {
	if arm {
		return ARM64
	}
	return AMD64
}

// Service is a managed service that runs on a cloud's machines for a surcharge.
// The empty Service is the plain machine.
type Service string

// The managed services that the catalogue has prices for.
const (
	NoService Service = ""
	EMR       Service = "emr"
	Dataproc  Service = "dataproc"
)

// Offer is something a cloud sells in one place: a machine type, with its accelerators, in a zone, or in a region if
// the cloud sells by region. Prices are list prices in USD per hour of one machine. They do not include the surcharge
// of a managed service, which is in SurchargeUSD.
type Offer struct {
	// Cloud is the cloud's short name: aws, azure, gcp, lambda.
	Cloud string `json:"cloud"`
	// Region is the region's name at its cloud.
	Region string `json:"region"`
	// Zone is empty if the cloud sells by region (Azure, Lambda). On AWS it is the zone's ID (use1-az1), because a
	// name such as us-east-1a means a different zone in each account.
	Zone string `json:"zone,omitempty"`
	// InstanceType is the name under which the cloud launches the machine; for a TPU it is the slice (tpu-v3-8).
	InstanceType string `json:"instanceType"`
	// VCPU counts hardware threads as sold. VCPU and MemoryGiB of a multi-host TPU slice are the sums over its hosts.
	VCPU      float64 `json:"vcpu"`
	MemoryGiB float64 `json:"memoryGiB"`
	// Accelerator is the canonical name (package accel), empty if there is none.
	Accelerator string `json:"accelerator,omitempty"`
	// AcceleratorCount may be fractional: Azure sells a sixth of an A10.
	AcceleratorCount float64 `json:"acceleratorCount,omitempty"`
	// Attached means that InstanceType does not imply the accelerators: the launch has to name them (Google N1 with
	// T4, P4, P100 or V100).
	Attached bool `json:"attached,omitempty"`
	Arch     Arch `json:"arch"`
	// SpotOnly means that the offer is not sold on demand, although it has an on-demand price.
	SpotOnly bool `json:"spotOnly,omitempty"`
	// OnDemandUSD is per hour, and always above zero.
	OnDemandUSD float64 `json:"onDemandUSD"`
	// SpotUSD is per hour. It is only valid if HasSpot is set. The catalogue ignores a listed spot price of zero,
	// which is a gap in the data, and one above the on-demand price, which is never worth buying.
	SpotUSD float64 `json:"spotUSD,omitempty"`
	HasSpot bool    `json:"hasSpot"`
	// Interruption is the frequency of interruption by AWS Spot Advisor.
	Interruption InterruptionBand `json:"interruption"`
	// Service is set if the query named a service. SurchargeUSD is then the service's price per hour of this machine,
	// on either market.
	Service      Service `json:"service,omitempty"`
	SurchargeUSD float64 `json:"surchargeUSD,omitempty"`
	// EMRUSD is EMR's surcharge per hour of this machine, in a new offer for [Catalog.Replace]. Queries do not set it.
	EMRUSD float64 `json:"-"`
	// CarbonGPerKWh is the carbon intensity of the region's grid in gCO2eq/kWh; 0 if unknown.
	CarbonGPerKWh float64 `json:"carbonGPerKWh,omitempty"`
	// Hardware has the speed, the boot time and the billing of the machine.
	Hardware
}

// USDPerHour returns the price on a market, including the surcharge of the service, and whether the offer is sold
// there. For AnyMarket it returns the lower price.
func (o *Offer) USDPerHour(m Market) (usd float64, ok bool) {
	switch {
	case o.SpotOnly && (m == OnDemand || !o.HasSpot):
		return 0, false
	case m == OnDemand, m == AnyMarket && !o.HasSpot:
		return sumUSD(o.OnDemandUSD, o.SurchargeUSD), true
	case o.HasSpot:
		return sumUSD(o.SpotUSD, o.SurchargeUSD), true
	default:
		return 0, false
	}
}

// sumUSD adds prices and rounds to the catalogue's resolution of 10⁻⁹ USD, so that equal sums are equal numbers.
func sumUSD(a, b float64) float64 { return math.Round((a+b)*1e9) / 1e9 }

// Place returns the offer's region as the optimizer's model names places: CLOUD:REGION.
func (o *Offer) Place() string { return o.Cloud + ":" + o.Region }

// ID returns the ID of the offer, without a market.
func (o *Offer) ID() string { return o.id(AnyMarket).String() }

// OfferID returns the ID in parts.
func (o *Offer) OfferID() OfferID { return o.id(AnyMarket) }

func (o *Offer) id(m Market) OfferID {
	id := OfferID{
		Cloud: o.Cloud, Region: o.Region, Zone: o.Zone,
		InstanceType: o.InstanceType, Service: o.Service, Market: m,
	}
	if o.Attached {
		id.Accelerator, id.AcceleratorCount = o.Accelerator, o.AcceleratorCount
	}
	return id
}

// Match is an offer on one market: a candidate of the optimizer's model.
type Match struct {
	Offer
	// Market is OnDemand or Spot.
	Market Market `json:"market"`
	// USDPerHour is the price on that market with the service's surcharge.
	USDPerHour float64 `json:"usdPerHour"`
}

// ID returns the ID of the offer and the market: CLOUD/REGION/ZONE/TYPE[/SERVICE]/MARKET.
func (m *Match) ID() string { return m.id(m.Market).String() }

// OfferID returns the ID in parts.
func (m *Match) OfferID() OfferID { return m.id(m.Market) }

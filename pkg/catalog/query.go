package catalog

import (
	"fmt"
	"math"
)

// Range limits a size from both sides, inclusively. A zero bound is no limit, so the zero Range contains everything.
type Range struct {
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
}

// AtLeast returns the Range for "8+".
func AtLeast(x float64) Range { return Range{Min: x} }

// Exactly returns the Range for a bare "8".
func Exactly(x float64) Range { return Range{Min: x, Max: x} }

func (r Range) contains(x float64) bool {
	return x >= r.Min && (r.Max == 0 || x <= r.Max)
}

// closed returns r with +Inf instead of a missing maximum.
func (r Range) closed() Range {
	if r.Max == 0 {
		r.Max = math.Inf(1)
	}
	return r
}

// Scope is the group of which [Query.CheapestPer] keeps one match.
type Scope uint8

// The scopes. PerOffer, the zero value, keeps every match.
const (
	PerOffer Scope = iota
	PerZone
	PerRegion
	PerCloud
)

// scopeNames are the names of the scopes in files and flags.
var scopeNames = [...]string{"offer", "zone", "region", "cloud"}

// String returns offer, zone, region or cloud.
func (s Scope) String() string {
	if int(s) >= len(scopeNames) {
		return ""
	}
	return scopeNames[s]
}

// MarshalText writes the name that [Scope.String] returns.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name that [Scope.String] returns.
func (s *Scope) UnmarshalText(text []byte) error {
	for i, name := range scopeNames {
		if string(text) == name {
			*s = Scope(i)
			return nil
		}
	}
	return fmt.Errorf("unknown scope %q: want offer, zone, region or cloud", text)
}

// AnyAccelerator as [Query.Accelerator] matches machines with and without accelerators.
const AnyAccelerator = "*"

// Query describes the wanted offers. An offer must pass all filters. A zero field filters nothing, except
// Accelerator.
type Query struct {
	VCPU      Range `json:"vcpu,omitzero"`
	MemoryGiB Range `json:"memoryGiB,omitzero"`
	// Accelerator is a name in any spelling that package accel reads. Empty means a machine without accelerators:
	// GPUs and TPUs are scarce, have their own quotas, and are sometimes cheaper by accident, so a job gets them only
	// if it asks for them. If InstanceType is set, or with AnyAccelerator, machines with accelerators match too.
	Accelerator string `json:"accelerator,omitempty"`
	// AcceleratorCount is the exact count; 0 matches any count.
	AcceleratorCount float64 `json:"acceleratorCount,omitempty"`
	// Clouds, Regions and Zones each match any of the listed names. A name that two clouds share (us-east-1 of AWS
	// and of Lambda) can be written with the cloud: aws:us-east-1.
	Clouds  []string `json:"clouds,omitempty"`
	Regions []string `json:"regions,omitempty"`
	Zones   []string `json:"zones,omitempty"`
	// InstanceType is the cloud's name of the machine type, ignoring case.
	InstanceType string `json:"instanceType,omitempty"`
	Arch         Arch   `json:"arch,omitempty"`
	// Family is a family of machine types, such as c7a or Dasv5, and CPU a processor or its generation, such as genoa.
	// See hardware.Family and hardware.IsCPU.
	Family string `json:"family,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	// Market limits the query to one market. With AnyMarket, an offer sold on both markets is two matches.
	Market Market `json:"market,omitempty"`
	// Service limits the query to machines that a managed service runs on. Prices, and so the order of matches, then
	// include its surcharge.
	Service Service `json:"service,omitempty"`
	// MaxInterruption limits spot matches to offers that are known to be in this band or a lower one. It does not
	// affect on-demand matches.
	MaxInterruption InterruptionBand `json:"maxInterruption,omitempty"`
	// MaxCarbonGPerKWh limits the query to regions whose grid is known to emit at most this amount, in gCO2eq/kWh.
	MaxCarbonGPerKWh float64 `json:"maxCarbonGPerKWh,omitempty"`
	// MaxUSDPerHour limits the query to matches whose USDPerHour is at most this amount; 0 means no limit.
	MaxUSDPerHour float64 `json:"maxUSDPerHour,omitempty"`
	// Keep, if not nil, is called last, for offers that pass all other filters. A broker uses it to leave out blocked
	// locations. The Match is only valid during the call.
	Keep func(*Match) bool `json:"-"`
	// CheapestPer keeps only the cheapest match of each zone, region or cloud, on each market that Market allows.
	CheapestPer Scope `json:"cheapestPer,omitempty"`
	// Faster keeps with CheapestPer also each match that is faster, by Speed or by SlowSpeed, than all cheaper matches
	// of its group and market: one of them is the best for a task that uses no accelerator.
	Faster bool `json:"faster,omitempty"`
	// Limit is the maximum number of matches to return; 0 returns all.
	Limit int `json:"limit,omitempty"`
}

package catalog

import (
	"fmt"
	"math"
)

// Range bounds a size from both sides, inclusively. Zero leaves a side open, so
// the zero Range admits everything.
type Range struct {
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
}

// AtLeast is the Range that "8+" means.
func AtLeast(x float64) Range { return Range{Min: x} }

// Exactly is the Range that a bare "8" means.
func Exactly(x float64) Range { return Range{Min: x, Max: x} }

func (r Range) contains(x float64) bool {
	return x >= r.Min && (r.Max == 0 || x <= r.Max)
}

// closed is r with numbers on both sides.
func (r Range) closed() Range {
	if r.Max == 0 {
		r.Max = math.Inf(1)
	}
	return r
}

// Scope is what [Query.CheapestPer] keeps one match of.
type Scope uint8

// The scopes. PerOffer, the zero value, keeps every match.
const (
	PerOffer Scope = iota
	PerZone
	PerRegion
	PerCloud
)

// scopeNames are the words for scopes, in files and flags.
var scopeNames = [...]string{"offer", "zone", "region", "cloud"}

// String is offer, zone, region or cloud.
func (s Scope) String() string {
	if int(s) >= len(scopeNames) {
		return ""
	}
	return scopeNames[s]
}

// MarshalText writes the word of [Scope.String].
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the words of [Scope.String].
func (s *Scope) UnmarshalText(text []byte) error {
	for i, name := range scopeNames {
		if string(text) == name {
			*s = Scope(i)
			return nil
		}
	}
	return fmt.Errorf("unknown scope %q: want offer, zone, region or cloud", text)
}

// AnyAccelerator as [Query.Accelerator] asks for machines with an accelerator or
// without one.
const AnyAccelerator = "*"

// Query says which offers are wanted. Filters add up; a zero field filters
// nothing, with one exception, Accelerator.
type Query struct {
	VCPU      Range `json:"vcpu,omitzero"`
	MemoryGiB Range `json:"memoryGiB,omitzero"`
	// Accelerator is a name in any spelling that package accel reads. Empty means
	// a plain machine: GPUs and TPUs nobody asked for are scarce, under quotas of
	// their own, and at times cheaper by accident. InstanceType lifts that, and so
	// does AnyAccelerator.
	Accelerator string `json:"accelerator,omitempty"`
	// AcceleratorCount is exact; 0 admits any count.
	AcceleratorCount float64 `json:"acceleratorCount,omitempty"`
	// Clouds, Regions and Zones admit any of those named. Names that two clouds
	// share (us-east-1 of AWS and of Lambda) can be written with the cloud:
	// aws:us-east-1.
	Clouds  []string `json:"clouds,omitempty"`
	Regions []string `json:"regions,omitempty"`
	Zones   []string `json:"zones,omitempty"`
	// InstanceType is the cloud's name, in any case.
	InstanceType string `json:"instanceType,omitempty"`
	Arch         Arch   `json:"arch,omitempty"`
	// Market restricts to one; with AnyMarket an offer sold on both is two matches.
	Market Market `json:"market,omitempty"`
	// Service asks for machines that a managed service runs on; its surcharge is
	// then in the price and in the order.
	Service Service `json:"service,omitempty"`
	// MaxInterruption admits, on the spot market, only offers known to be in this
	// band or a rarer one. It does not restrict on-demand matches.
	MaxInterruption InterruptionBand `json:"maxInterruption,omitempty"`
	// MaxCarbonGPerKWh admits only regions whose grid is known to be at most this.
	MaxCarbonGPerKWh float64 `json:"maxCarbonGPerKWh,omitempty"`
	// Keep, if not nil, is asked last about what all other filters admit. It is how
	// a broker leaves out blocked locations. The Match is only valid during the call.
	Keep func(*Match) bool `json:"-"`
	// CheapestPer keeps the cheapest match of each zone, region or cloud, on each
	// market that Market admits.
	CheapestPer Scope `json:"cheapestPer,omitempty"`
	// Limit is the most matches to return; 0 is all.
	Limit int `json:"limit,omitempty"`
}

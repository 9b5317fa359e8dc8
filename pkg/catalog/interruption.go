package catalog

import (
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// InterruptionBand states how often the cloud took back spot machines of a type in a region during the last month, in
// the bands of AWS Spot Advisor. Other clouds do not publish this, so their offers have UnknownInterruption.
type InterruptionBand uint8

// The bands, from rare to frequent. UnknownInterruption is the zero value.
const (
	UnknownInterruption InterruptionBand = iota
	InterruptionBelow5
	Interruption5To10
	Interruption10To15
	Interruption15To20
	InterruptionAbove20
)

// bandMonthly is the share of machines interrupted within a month that represents each band: its middle, and 25% for
// the band without an upper bound.
var bandMonthly = [...]float64{0, 0.025, 0.075, 0.125, 0.175, 0.25}

// hoursPerMonth is the month that clouds bill by: 365 × 24 / 12.
const hoursPerMonth = 730

// String returns Spot Advisor's label, or "" for UnknownInterruption.
func (b InterruptionBand) String() string {
	if int(b) >= len(table.Bands) {
		return ""
	}
	return table.Bands[b]
}

// parseInterruptionBand reads a label of Spot Advisor. The empty label is UnknownInterruption.
func parseInterruptionBand(s string) (InterruptionBand, error) {
	if i := slices.Index(table.Bands[:], s); i >= 0 {
		return InterruptionBand(i), nil //nolint:gosec // a handful
	}
	return UnknownInterruption,
		fmt.Errorf("unknown interruption band %q: want <5%%, 5-10%%, 10-15%%, 15-20%% or >20%%", s)
}

// MarshalText writes the label.
func (b InterruptionBand) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a label.
func (b *InterruptionBand) UnmarshalText(text []byte) error {
	parsed, err := parseInterruptionBand(string(text))
	if err != nil {
		return err
	}
	*b = parsed
	return nil
}

// PreemptionsPerHour returns the rate λ of a Poisson process under which the band's share m of machines is
// interrupted within a month: λ = −ln(1−m)/730. The chance that a run of h hours is interrupted is then 1−exp(−λh).
// known is false for UnknownInterruption.
func (b InterruptionBand) PreemptionsPerHour() (rate float64, known bool) {
	if b == UnknownInterruption || int(b) >= len(bandMonthly) {
		return 0, false
	}
	return -math.Log1p(-bandMonthly[b]) / hoursPerMonth, true
}

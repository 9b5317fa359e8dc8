package catalog

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxAmount is the maximum that an account can have of each part of an amount.
const maxAmount = 1e12

// Machines returns the amount of n machines. Amounts count the capacity that an account pays for in any case:
// reservations in machines, and commitments in vCPUs, memory, USD or normalised units. They are whole numbers of small
// units, so that sums are exact. Demand is rounded up and supply is rounded down, so that rounding errors never add up
// to more than the capacity.
func Machines(n int) apitypes.Amount { return apitypes.Amount{Machines: int64(n)} }

// DemandUSD returns the demand of something that costs usd per hour, rounded up.
func DemandUSD(usd float64) apitypes.Amount { return apitypes.Amount{MicroUSD: up(usd * 1e6)} }

// SupplyUSD returns the supply of a commitment of usd per hour, rounded down.
func SupplyUSD(usd float64) apitypes.Amount { return apitypes.Amount{MicroUSD: down(usd * 1e6)} }

// DemandOf returns the demand of a machine with that number of vCPUs and GiB of memory, rounded up.
func DemandOf(vcpu, gib float64) apitypes.Amount {
	return apitypes.Amount{MilliVCPU: up(vcpu * 1000), MiB: up(gib * 1024)}
}

// slack is the tolerance for floating-point errors, in small units: 0.1 × 10⁶ is not exactly 100,000.
const slack = 1e-6

func up(x float64) int64 { return int64(math.Ceil(math.Min(x, maxAmount) - slack)) }

func down(x float64) int64 { return int64(math.Floor(math.Min(x, maxAmount) + slack)) }

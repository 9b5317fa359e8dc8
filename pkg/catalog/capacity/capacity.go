// Package capacity counts what an account has paid for already: in machines where it has reserved them, in what they
// are made of or cost where it has committed itself to use so much. It knows neither offers nor clouds.
//
// Amounts are whole numbers of small units, so that sums are exact: what is asked for is rounded up and what there is
// is rounded down, and no sum of rounding errors takes more than there is.
package capacity

import (
	"math"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// most is what an account can have of each part of an amount (Amount.Sound).
const most = 1e12

// Machines is an amount of so many.
func Machines(n int) apitypes.Amount { return apitypes.Amount{Machines: int64(n)} }

// TakenUSD is what costs so many USD an hour, rounded up; HadUSD is so much that there is, rounded down.
func TakenUSD(usd float64) apitypes.Amount { return apitypes.Amount{MicroUSD: up(usd * 1e6)} }

// HadUSD is so many USD an hour that there are, rounded down.
func HadUSD(usd float64) apitypes.Amount { return apitypes.Amount{MicroUSD: down(usd * 1e6)} }

// TakenBy is what a machine with so many vCPUs and so much memory takes, rounded up.
func TakenBy(vcpu, gib float64) apitypes.Amount {
	return apitypes.Amount{MilliVCPU: up(vcpu * 1000), MiB: up(gib * 1024)}
}

// slack is how much of a unit rounding may be off by itself: 0.1 × 10⁶ is not 100,000 to the last bit.
const slack = 1e-6

func up(x float64) int64 { return int64(math.Ceil(math.Min(x, most) - slack)) }

func down(x float64) int64 { return int64(math.Floor(math.Min(x, most) + slack)) }

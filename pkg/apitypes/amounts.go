package apitypes

import (
	"maps"
	"slices"
)

// Amounts are quantities of resources by name: VCPUs, MemoryGiB, USDPerHour, USDPerMonth, or an accelerator kind of the
// catalogue. A missing name means zero, or no limit if the amounts are limits. Shared Amounts must not be changed.
type Amounts map[string]float64

// The names of resources other than accelerators.
const (
	VCPUs      = "vcpus"
	MemoryGiB  = "memoryGiB"
	USDPerHour = "usdPerHour"
)

// amountEps is the rounding error tolerated in sums of amounts.
const amountEps = 1e-6

// Plus returns a + b.
func (a Amounts) Plus(b Amounts) Amounts {
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(a)
	if sum == nil {
		sum = make(Amounts, len(b))
	}
	for name, v := range b {
		sum[name] += v
	}
	return sum
}

// Minus returns a - b. It drops a resource if nothing, or no more than a rounding error, remains of
// it.
func (a Amounts) Minus(b Amounts) Amounts {
	if len(b) == 0 || len(a) == 0 {
		return a
	}
	left := maps.Clone(a)
	for name, v := range b {
		if left[name] -= v; left[name] <= amountEps {
			delete(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return left
}

// Exceeds reports whether a, in addition to the amounts in use (beside), would exceed the limits
// (most), and names the first such resource in alphabetical order. A resource without a limit is
// never exceeded, nor is one that a does not need.
func (a Amounts) Exceeds(most, beside Amounts) (name string, is bool) {
	for _, name := range slices.Sorted(maps.Keys(most)) {
		if a[name] > 0 && beside[name]+a[name] > most[name]+amountEps {
			return name, true
		}
	}
	return "", false
}

// USDPerMonth is a limit of a queue: the maximum cost of its jobs in a calendar month (UTC).
// Running tasks hold other resources and release them when they end. Spending is only reset when
// the month ends.
const USDPerMonth = "usdPerMonth"

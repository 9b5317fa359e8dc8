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

// Minus returns a - b, without the resources of which no more than a rounding error remains.
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

// Exceeds returns the first resource, by name, of which the sum of a and beside is more than the limit in most. A
// resource without a limit is never exceeded.
func (a Amounts) Exceeds(most, beside Amounts) (name string, is bool) {
	for _, name := range slices.Sorted(maps.Keys(most)) {
		if a[name] > 0 && beside[name]+a[name] > most[name]+amountEps {
			return name, true
		}
	}
	return "", false
}

// USDPerMonth is a limit of a queue: the maximum cost of its jobs in a calendar month (UTC). Unlike the other resources
// it is not held and released: spending is reset when the month ends.
const USDPerMonth = "usdPerMonth"

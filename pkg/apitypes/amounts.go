package apitypes

import (
	"maps"
	"slices"
)

// Amounts are quantities of resources, by their names: VCPUs, MemoryGiB, USDPerHour, USDPerMonth, or the name of a kind
// of accelerator as the catalogue has it. What is not in it is none, or no bound. Nobody changes one that is shared.
type Amounts map[string]float64

// The names of resources that are no accelerators.
const (
	VCPUs      = "vcpus"
	MemoryGiB  = "memoryGiB"
	USDPerHour = "usdPerHour"
)

// amountEps is the rounding that sums of amounts are forgiven.
const amountEps = 1e-6

// Plus is the sum.
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

// Minus is what is left when some are taken away; nothing of what is not more than rounding.
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

// Exceeds says of which resource, the first by name, some are more than is left of a bound beside others. What has no
// bound is never more.
func (a Amounts) Exceeds(most, beside Amounts) (name string, is bool) {
	for _, name := range slices.Sorted(maps.Keys(most)) {
		if a[name] > 0 && beside[name]+a[name] > most[name]+amountEps {
			return name, true
		}
	}
	return "", false
}

// USDPerMonth is, among the amounts that a queue may have at most, what its jobs may cost in a calendar month (UTC). It
// is no resource that is held: what is spent of it comes back when the month turns.
const USDPerMonth = "usdPerMonth"

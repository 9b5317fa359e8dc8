package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
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

// TellFigure tells people an amount without its unit.
func TellFigure(v float64) string { return fault.Number(v) }

// TellAmount says an amount of a resource with its unit: "8 vCPUs", "64 GiB of memory", "2 A100".
func TellAmount(name string, v float64) string {
	switch name {
	case VCPUs:
		return fmt.Sprintf("%g vCPUs", v)
	case MemoryGiB:
		return fault.Number(v) + " GiB of memory"
	case USDPerHour:
		return fmt.Sprintf("%.4g USD/h", v)
	case USDPerMonth:
		return TellUSD(v) + " USD a month"
	default:
		return fmt.Sprintf("%g %s", v, name)
	}
}

// What queues are given at most.
const (
	MaxAmount = 1e9 // of a resource
	MaxCount  = 1e6 // tasks, or parts of a share
)

// checkAmount looks for what is no quantity of a resource.
func checkAmount(field string, v float64) error {
	if !(v >= 0 && v <= MaxAmount) {
		return fmt.Errorf("%w: %s: %v is not a quantity from 0 to %.0f", ErrQueue, field, v, MaxAmount)
	}
	return nil
}

// checkAmounts looks for what is no quantity of a resource.
func checkAmounts(field string, a Amounts) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		v := a[name]
		switch {
		case name == "" || len(name) > MaxLabel || strings.ContainsAny(name, " =,\t\n"):
			return fmt.Errorf("%w: %s: %q is no name of a resource", ErrQueue, field, Clip(name))
		case name == VCPUs:
			return fmt.Errorf("%w: %s.%s: has a field of its own", ErrQueue, field, name)
		}
		if err := checkAmount(field+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// bounds are amounts without those of nothing, which bound nothing.
func bounds(a Amounts) Amounts {
	var out Amounts
	for name, v := range a {
		if v > 0 {
			out = out.Plus(Amounts{name: v})
		}
	}
	return out
}

// withVCPU are amounts with vCPUs, if there are any.
func withVCPU(a Amounts, vcpu float64) Amounts {
	if vcpu <= 0 {
		return a
	}
	return a.Plus(Amounts{VCPUs: vcpu})
}

// Most is what the queue may have of each resource that it bounds, Kept what is guaranteed to it, and Used what it
// holds: each with vCPUs. A month's budget is none that is held.
func (q *Queue) Most() Amounts {
	if _, monthly := q.Max[USDPerMonth]; !monthly {
		return withVCPU(q.Max, q.MaxVCPU)
	}
	most := maps.Clone(q.Max)
	delete(most, USDPerMonth)
	return withVCPU(most, q.MaxVCPU)
}

// Kept is what is guaranteed to the queue.
func (q *Queue) Kept() Amounts { return withVCPU(q.Guaranteed, q.GuaranteedVCPU) }

// Used is what the queue holds.
func (q *Queue) Used() Amounts { return withVCPU(q.Use, q.VCPU) }

// MaxBounded is how many resources beside vCPUs the queues of a tree may bound: what a session counts is bounded.
const MaxBounded = 6

// Bounded are the resources beside vCPUs that any queue of a tree bounds, deserves or is guaranteed, by name. A month's
// budget is none.
func Bounded(tree []*Queue) (names []string) {
	for _, q := range tree {
		for _, a := range []Amounts{q.Max, q.Deserved, q.Guaranteed} {
			for name := range a {
				if name != USDPerMonth && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Holds is what so many machines of a planned offer are, beside their vCPUs.
func (p *Planned) Holds(nodes int) Amounts {
	a := Amounts{}
	add := func(name string, v float64) {
		if name != "" && v > 0 {
			a[name] = v * float64(nodes)
		}
	}
	add(MemoryGiB, p.MemoryGiB)
	add(USDPerHour, p.Offer.USDPerHour)
	add(p.Offer.Accelerator, p.Offer.AccelCount)
	return a
}

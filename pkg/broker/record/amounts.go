package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TellFigure tells people an amount without its unit.
func TellFigure(v float64) string { return fault.Number(v) }

// TellAmount says an amount of a resource with its unit: "8 vCPUs", "64 GiB of memory", "2 A100".
func TellAmount(name string, v float64) string {
	switch name {
	case apitypes.VCPUs:
		return fmt.Sprintf("%g vCPUs", v)
	case apitypes.MemoryGiB:
		return fault.Number(v) + " GiB of memory"
	case apitypes.USDPerHour:
		return fmt.Sprintf("%.4g USD/h", v)
	case apitypes.USDPerMonth:
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
func checkAmounts(field string, a apitypes.Amounts) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		v := a[name]
		switch {
		case name == "" || len(name) > MaxLabel || strings.ContainsAny(name, " =,\t\n"):
			return fmt.Errorf("%w: %s: %q is no name of a resource", ErrQueue, field, Clip(name))
		case name == apitypes.VCPUs:
			return fmt.Errorf("%w: %s.%s: has a field of its own", ErrQueue, field, name)
		}
		if err := checkAmount(field+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// bounds are amounts without those of nothing, which bound nothing.
func bounds(a apitypes.Amounts) apitypes.Amounts {
	var out apitypes.Amounts
	for name, v := range a {
		if v > 0 {
			out = out.Plus(apitypes.Amounts{name: v})
		}
	}
	return out
}

// MaxBounded is how many resources beside vCPUs the queues of a tree may bound: what a session counts is bounded.
const MaxBounded = 6

// Bounded are the resources beside vCPUs that any queue of a tree bounds, deserves or is guaranteed, by name. A month's
// budget is none.
func Bounded(tree []*apitypes.Queue) (names []string) {
	for _, q := range tree {
		for _, a := range []apitypes.Amounts{q.Max, q.Deserved, q.Guaranteed} {
			for name := range a {
				if name != apitypes.USDPerMonth && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Holds is what so many machines of a planned offer are, beside their vCPUs.
func (p *Planned) Holds(nodes int) apitypes.Amounts {
	a := apitypes.Amounts{}
	add := func(name string, v float64) {
		if name != "" && v > 0 {
			a[name] = v * float64(nodes)
		}
	}
	add(apitypes.MemoryGiB, p.MemoryGiB)
	add(apitypes.USDPerHour, p.Offer.USDPerHour)
	add(p.Offer.Accelerator, p.Offer.AccelCount)
	return a
}

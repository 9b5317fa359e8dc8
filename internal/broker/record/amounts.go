package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Maximum values of queue settings.
const (
	MaxAmount = 1e9 // of a resource
	MaxCount  = 1e6 // tasks, or parts of a share
)

// checkAmount checks that v is a valid quantity of a resource.
func checkAmount(field string, v float64) error {
	if !(v >= 0 && v <= MaxAmount) {
		return fmt.Errorf("%w: %s: %v is not a quantity from 0 to %.0f", ErrQueue, field, v, MaxAmount)
	}
	return nil
}

// checkAmounts checks that all amounts are valid quantities of resources.
func checkAmounts(field string, a apitypes.Amounts) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		v := a[name]
		switch {
		case name == "" || len(name) > MaxLabel || strings.ContainsAny(name, " =,\t\n"):
			return fmt.Errorf("%w: %s: %q is not the name of a resource", ErrQueue, field, readable.ClipMessage(name))
		case name == apitypes.VCPUs:
			return fmt.Errorf("%w: %s.%s: use its separate field", ErrQueue, field, name)
		}
		if err := checkAmount(field+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// bounds returns the amounts without zeros, since a zero is no limit.
func bounds(a apitypes.Amounts) apitypes.Amounts {
	var out apitypes.Amounts
	for name, v := range a {
		if v > 0 {
			out = out.Plus(apitypes.Amounts{name: v})
		}
	}
	return out
}

// MaxBounded is the maximum number of resources, in addition to vCPUs, that the queues of a tree may limit. A session
// cannot count more.
const MaxBounded = 6

// Bounded returns the names of the resources, in addition to vCPUs, that any queue of a tree limits, deserves or is
// guaranteed. Monthly budgets are excluded.
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

// Holds returns the amounts, in addition to vCPUs, that machines of a planned offer hold.
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

package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Limit is what a deployment may have of bought machines at the same time, over all queues. Zero means no limit.
type Limit struct {
	Machines   int
	USDPerHour float64 // of all machines together, each at the most that it may cost
}

// None reports whether nothing is limited.
func (l Limit) None() bool { return l == Limit{} }

// String names what is limited.
func (l Limit) String() string {
	var parts []string
	if l.Machines > 0 {
		parts = append(parts, machines(l.Machines))
	}
	if l.USDPerHour > 0 {
		parts = append(parts, "machines for "+perHour(l.USDPerHour))
	}
	return strings.Join(parts, " and ")
}

// Excess says what of the limit a demand exceeds in addition to what is in use, and the limit; "" if nothing.
func (l Limit) Excess(need, used apitypes.Bought) string {
	after := used.Plus(need)
	switch {
	case l.Machines > 0 && after.Machines > l.Machines:
		return fmt.Sprintf("%s and the broker's limit is %s", machines(need.Machines), machines(l.Machines)) +
			inUse(used, strconv.Itoa(used.Machines))
	case l.USDPerHour > 0 && after.USDPerHour > l.USDPerHour+limitEps:
		return fmt.Sprintf("%s and the broker's limit is %s", perHour(need.USDPerHour), perHour(l.USDPerHour)) +
			inUse(used, fault.Number(used.USDPerHour))
	}
	return ""
}

func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return strconv.Itoa(n) + " machines"
}

func perHour(usd float64) string { return readable.Amount(apitypes.USDPerHour, usd) }

func inUse(used apitypes.Bought, amount string) string {
	if used.Machines == 0 {
		return ""
	}
	return " (" + amount + " in use)"
}

// limitEps is the rounding error that sums of prices may have, in USD per hour.
const limitEps = 1e-6

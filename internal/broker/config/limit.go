package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Limit limits the bought machines that a deployment may have at a time, over all queues. Zero means no limit.
type Limit struct {
	Machines   int
	USDPerHour float64 // of all machines together, each at its maximum price
}

// None reports whether there is no limit.
func (l Limit) None() bool { return l == Limit{} }

// String returns the limits as text.
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

// Excess returns a text with the part of a demand that exceeds the limit, in addition to the used amount, and the
// limit. It returns "" if nothing exceeds the limit.
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

// limitEps is the tolerance for rounding errors in sums of prices, in USD per hour.
const limitEps = 1e-6

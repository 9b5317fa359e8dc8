package backtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// OfTypes returns the markets of the named machine types and families, in their order; all if there are no names. The
// paper has the sizes of one family only (WCSSI, section 4: g6). A name without a market is an error that wraps
// ErrBadRequest and names the families of the data.
func OfTypes(markets []*market.Market, names []string) ([]*market.Market, error) {
	if len(names) == 0 {
		return markets, nil
	}
	var families []string
	for _, m := range markets {
		families = append(families, family(m.Type))
	}
	for _, name := range names {
		if !slices.ContainsFunc(markets, func(m *market.Market) bool { return isType(m.Type, name) }) {
			slices.Sort(families)
			return nil, fmt.Errorf("%w: there are no prices of a machine type or family %q: %s", ErrBadRequest, name,
				fault.OneOf(name, slices.Compact(families)))
		}
	}
	return slices.DeleteFunc(slices.Clone(markets), func(m *market.Market) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return isType(m.Type, name) })
	}), nil
}

func isType(machine, name string) bool {
	return strings.EqualFold(machine, name) || hardware.IsFamily(family(machine), name)
}

// family is the family of a machine type. Prices do not name their cloud, but the form of the type does.
func family(machine string) string {
	cloud := "gcp"
	switch {
	case strings.HasPrefix(machine, "Standard_"), strings.HasPrefix(machine, "Basic_"):
		cloud = "azure"
	case strings.HasPrefix(machine, "gpu_"):
		cloud = "lambda"
	case strings.Contains(machine, "."):
		cloud = "aws"
	}
	return hardware.Family(cloud, machine)
}

package cloudkit

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Narrow leaves of a catalogue the offers of some clouds in their regions; a cloud without regions has all of them.
// Other clouds' offers stay where others says so.
func Narrow(c *catalog.Catalog, regions map[string][]string, others bool) (*catalog.Catalog, error) {
	return c.Replace(func(o *catalog.Offer) bool {
		in, named := regions[o.Cloud]
		if !named {
			return !others
		}
		return len(in) > 0 && !slices.Contains(in, o.Region)
	}, nil)
}

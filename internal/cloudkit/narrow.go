package cloudkit

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Narrow keeps, of a catalogue's offers, those of the given clouds in the given regions; a cloud without regions
// keeps all. The offers of other clouds stay if others is true.
func Narrow(c *catalog.Catalog, regions map[string][]string, others bool) (*catalog.Catalog, error) {
	return c.Replace(func(o *catalog.Offer) bool {
		in, named := regions[o.Cloud]
		if !named {
			return !others
		}
		return len(in) > 0 && !slices.Contains(in, o.Region)
	}, nil)
}

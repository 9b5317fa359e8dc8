// Package sellable filters the catalogue: it finds the offers that cannot be bought with the default images and
// settings, because no image boots there, the cloud does not sell them in that market, or the launch would need a
// setting that the drivers do not send. The importer of the shipped catalogue and the refresh of each cloud use it.
//
// It depends on no SDK and calls no cloud. A refresh also applies the data of the cloud's API about a type.
package sellable

import "github.com/tradewind-broker/tradewind/pkg/catalog"

// Refused returns the reason for which an offer cannot be sold with the default image and settings; "" if it can be
// sold. There are few reasons, and offers with the same cause have the same reason, so that they can be counted.
func Refused(o catalog.Offer) (why string) {
	switch o.Cloud {
	case "aws":
		return aws(o)
	case "gcp":
		return gcp(o)
	case "azure":
		return azure(o)
	default:
		return ""
	}
}

// Only returns the catalogue without the offers that are refused, and the number of dropped offers by reason.
func Only(c *catalog.Catalog) (*catalog.Catalog, map[string]int, error) {
	dropped := map[string]int{}
	kept, err := c.Replace(func(o *catalog.Offer) bool {
		why := Refused(*o)
		if why != "" {
			dropped[o.Cloud+": "+why]++
		}
		return why != ""
	}, nil)
	return kept, dropped, err
}

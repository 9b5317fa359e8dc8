package sellable

import (
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Reasons for which offers of Google Cloud are refused.
const (
	whyBareMetal = "bare metal has the network interface IDPF, which launches do not request, and boots for long"
	whySpotOnly  = "Google sells it on spot only, and the offer has no spot price"
)

// gcp refuses bare metal, which needs IDPF (Compute Engine documentation, "Using the IDPF network interface"), and
// types that are not sold on demand without a spot price. On-demand sales of those with one are hidden by
// catalog.Offer.SpotOnly.
func gcp(o catalog.Offer) string {
	switch {
	case strings.HasSuffix(o.InstanceType, "-metal"):
		return whyBareMetal
	case o.SpotOnly && !o.HasSpot:
		return whySpotOnly
	}
	return ""
}

package sellable

import (
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Reasons for which offers of Google Cloud are refused.
const (
	whyBareMetal = "bare metal has the network interface IDPF, which launches do not request, and boots for long"
	whyNoDriver  = "no default image has a driver for its accelerator"
	whySpotOnly  = "Google sells it on spot only, and the offer has no spot price"
)

// gcp refuses bare metal, which needs IDPF (Compute Engine documentation, "Using the IDPF network interface"); types
// that are not sold on demand without a spot price; and accelerators without a driver in Google's images: those of Arm
// machines (A4X), for which no family of Deep Learning VMs exists, and K80, whose last driver is of the branch 470
// (NVIDIA, "Data Center GPU drivers", Kepler). On-demand sales of types with a spot price are hidden by
// catalog.Offer.SpotOnly.
func gcp(o catalog.Offer) string {
	switch {
	case strings.HasSuffix(o.InstanceType, "-metal"):
		return whyBareMetal
	case o.Accelerator == "K80", o.Accelerator != "" && o.Arch == catalog.ARM64,
		strings.HasPrefix(o.InstanceType, "a4x-"):
		return whyNoDriver
	case o.SpotOnly && !o.HasSpot:
		return whySpotOnly
	}
	return ""
}

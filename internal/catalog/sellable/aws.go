package sellable

import (
	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// aws refuses machine types that no default image boots, and those with an accelerator that no default image
// supports.
func aws(o catalog.Offer) string {
	class, why := ec2types.ImageOf(o.InstanceType)
	if why == "" && class == ec2types.Plain && o.Accelerator != "" {
		return ec2types.WhyNoDriver // of a family that is not known to have accelerators
	}
	return why
}

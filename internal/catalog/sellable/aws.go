package sellable

import (
	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// aws refuses the machine types that no default image boots, or whose accelerator no default image drives.
func aws(o catalog.Offer) string {
	class, why := ec2types.ImageOf(o.InstanceType)
	if why == "" && class == ec2types.Plain && o.Accelerator != "" {
		return ec2types.WhyNoDriver // of a family that is not known to have accelerators
	}
	return why
}

package sellable

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/sellable/ec2image"
)

// aws refuses the machine types that no default image boots, or whose accelerator no default image drives.
func aws(o catalog.Offer) string {
	_, why := ec2image.Of(o.InstanceType)
	return why
}

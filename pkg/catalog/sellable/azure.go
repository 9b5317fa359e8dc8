package sellable

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/sellable/azureimage"
)

// azure refuses confidential machines, and machine types whose accelerator no default image drives.
func azure(o catalog.Offer) string {
	_, why := azureimage.Of(o.InstanceType)
	return why
}

package sellable

import (
	"github.com/tradewind-broker/tradewind/internal/catalog/azureimage"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// azure refuses confidential machines, and machine types with an accelerator that no default image supports.
func azure(o catalog.Offer) string {
	class, why := azureimage.Of(o.InstanceType)
	switch class {
	case azureimage.GPU, azureimage.V100, azureimage.ROCm:
		return why
	}
	if why == "" && o.Accelerator != "" {
		return azureimage.WhyNoDriver // of a series that is not known to have accelerators
	}
	return why
}

package sellable

import "github.com/tradewind-broker/tradewind/pkg/catalog/hardware"

// Burstable reports whether the vCPUs of a machine type may be busy only for a part of the time. With busy vCPUs it
// costs a multiple of its price (AWS), or runs at a fraction of its speed (Azure, Google Cloud). It is sold only to
// tasks that name the type.
func Burstable(cloud, instanceType string) bool { return hardware.Baseline(cloud, instanceType) < 1 }

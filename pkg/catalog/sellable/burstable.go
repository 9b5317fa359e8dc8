package sellable

import (
	"regexp"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog/sellable/ec2types"
)

// sharedCore are Google's types whose vCPUs get a share of a core: 12.5, 25 and 50 % of each of two vCPUs of E2, 20 and
// 50 % of one of N1 (Compute Engine, "General-purpose machine family", "Shared-core machine types").
var sharedCore = []string{"e2-micro", "e2-small", "e2-medium", "f1-micro", "g1-small"}

// seriesB are Azure's burstable types, which fall back to 5 to 40 % of each vCPU when their credits are used up ("B
// family VM size series", "CPU credits").
var seriesB = regexp.MustCompile(`^Standard_B[0-9]`)

// Burstable reports whether the vCPUs of a machine type may be busy only for a part of the time. With busy vCPUs it
// costs a multiple of its price (AWS), or runs at a fraction of its speed (Azure, Google Cloud). It is sold only to
// tasks that name the type.
func Burstable(cloud, instanceType string) bool {
	switch cloud {
	case "aws":
		_, burstable := ec2types.Burst(instanceType, 1)
		return burstable
	case "azure":
		return seriesB.MatchString(instanceType)
	case "gcp":
		return slices.Contains(sharedCore, instanceType)
	}
	return false
}

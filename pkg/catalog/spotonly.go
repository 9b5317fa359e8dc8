package catalog

import "strings"

// spotOnly reports whether a machine type is sold only on spot. The catalogue's sources still list
// an on-demand price for these types. It is used only to compare spot prices with.
//
// Google sells A3 High with fewer than 8 GPUs, A3 Ultra, A4 and A4X on spot, by flex-start and in
// reservations (Compute Engine documentation, "Accelerator-optimized machine family", "Consumption
// option availability by machine type"). Tradewind buys neither flex-start nor reservations of
// these. github.com/dstackai/gpuhunt (providers/gcp.py) lists the same types;
// github.com/dstackai/dstack pull request 3100 reports that A4 is not available on demand.
func spotOnly(cloud, instanceType string) bool {
	if cloud != "gcp" {
		return false
	}
	switch instanceType {
	case "a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g":
		return true
	}
	family, _, _ := strings.Cut(instanceType, "-")
	return family == "a4" || family == "a4x" || strings.HasPrefix(instanceType, "a3-ultragpu-")
}

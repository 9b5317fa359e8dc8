// Package quotas knows the quotas of a cloud's account against which a machine counts: the group of machine types
// that share a quota, and the region and market that it limits. The drivers name the group that a refusal is about,
// the broker blocks the whole group, and the simulator's clouds have the same groups. It imports no SDK, because
// functions that only plan link it.
//
// It does not know the limits of an account; those are read by each cloud's Refresher.
package quotas

import (
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Groups that contain all machines of a region, or of an account, on both markets: their number, addresses or disks.
// Devices are the machines of a Kubernetes cluster with accelerators. A cluster is a region.
const (
	Region  = "machines"
	Account = "account"
	Devices = "devices"
)

// Names of Azure's quotas of all vCPUs in a region, on demand and spot. Spot machines do not count against the quotas
// of families.
//
// Source: Azure documentation, "vCPU quotas"; `az vm list-usage`.
const (
	AzureCores = "cores"
	AzureSpot  = "lowPriorityCores"
)

// Parts of the names of Google Cloud's quotas: of spot machines, and of all regions together.
const (
	preemptible = "PREEMPTIBLE_"
	allRegions  = "_ALL_REGIONS"
)

// gpuMetrics are Google Cloud's quotas of accelerators, by canonical name (Compute Engine API v1, enumeration
// Quota.metric). Of H100 only the preemptible one is listed. Newer accelerators have only GPUS_PER_GPU_FAMILY, with a
// dimension for the family, which is not listed.
var gpuMetrics = map[string]string{
	"K80": "NVIDIA_K80_GPUS", "P4": "NVIDIA_P4_GPUS", "P100": "NVIDIA_P100_GPUS", "V100": "NVIDIA_V100_GPUS",
	"T4": "NVIDIA_T4_GPUS", "L4": "NVIDIA_L4_GPUS", "A100": "NVIDIA_A100_GPUS", "A100-80GB": "NVIDIA_A100_80GB_GPUS",
	"H100": "NVIDIA_H100_GPUS",
}

// GoogleGPUs returns Google Cloud's quota of an accelerator on demand; "" if none is known.
func GoogleGPUs(accelerator string) string { return gpuMetrics[accelerator] }

// commonFamilies are Google Cloud's families whose processors count against the quota CPUS. Others have a quota of
// their family (N2_CPUS) or, if that is not listed, CPUS_PER_VM_FAMILY with a dimension for the family.
var commonFamilies = map[string]bool{"n1": true, "e2": true, "f1": true, "g1": true}

// GoogleCPUs returns the names of the quotas that a machine type's processors may count against on demand, the first
// that the project has.
func GoogleCPUs(instanceType string) []string {
	family, _, _ := strings.Cut(instanceType, "-")
	metrics := []string{strings.ToUpper(family) + "_CPUS"}
	if commonFamilies[family] {
		metrics = append(metrics, "CPUS")
	}
	return metrics
}

// Names of Google Cloud's quotas of disk space in a region, which machines on both markets share: of SSD and balanced
// persistent disks, and of balanced Hyperdisks (Compute Engine documentation, "Disk quotas").
const (
	GoogleSSD       = "SSD_TOTAL_GB"
	GoogleHyperdisk = "HDB_TOTAL_GB"
)

// hyperdiskFamilies boot only from Hyperdisk (Compute Engine documentation, "Machine type comparison").
var hyperdiskFamilies = map[string]bool{
	"c4": true, "c4a": true, "c4d": true, "n4": true, "n4a": true, "n4d": true, "x4": true, "a4": true,
	"a4x": true, "g4": true, "h4d": true, "m4": true,
}

// GoogleUsesHyperdisk reports whether a machine type boots from a balanced Hyperdisk. Others boot from a balanced
// persistent disk.
func GoogleUsesHyperdisk(instanceType string) bool {
	family, _, _ := strings.Cut(instanceType, "-")
	return hyperdiskFamilies[family] || strings.HasPrefix(instanceType, "a3-ultragpu")
}

// GoogleTPUs returns the group of a TPU's version: tpu-v3 of tpu-v3-8. Google's names differ by version and market.
func GoogleTPUs(instanceType string) string {
	if i := strings.LastIndexByte(instanceType, '-'); i > 0 {
		return instanceType[:i]
	}
	return instanceType
}

// Regional returns the quota of vCPUs that all, or most, machines of an offer's region and market share; "" if none is
// known.
func Regional(o apitypes.Offer) string {
	switch o.Cloud {
	case "aws":
		return ec2types.QuotaClass(o.InstanceType, o.Spot)
	case "azure":
		if o.Spot {
			return AzureSpot
		}
		return AzureCores
	case "gcp":
		metrics := GoogleCPUs(o.InstanceType)
		name := metrics[len(metrics)-1]
		if o.Spot {
			name = preemptible + name
		}
		return name
	}
	return ""
}

// Counts reports whether the machines of an offer count against a quota, if the offer is in the quota's region.
func Counts(group string, o apitypes.Offer) bool {
	if group == Region || group == Account {
		return true
	}
	switch o.Cloud {
	case "aws":
		return group == ec2types.QuotaClass(o.InstanceType, o.Spot)
	case "azure":
		return group == AzureSpot && o.Spot || !o.Spot && (group == AzureCores || group == AzureFamily(o.InstanceType))
	case "gcp":
		return countsOnGoogle(group, o)
	case "kubernetes":
		return group == Devices && o.Accelerator != ""
	}
	return false
}

// countsOnGoogle is Counts for Google Cloud. Each version of TPUs has separate quotas.
func countsOnGoogle(group string, o apitypes.Offer) bool {
	tpu := strings.HasPrefix(o.InstanceType, "tpu-")
	switch group {
	case "CPUS" + allRegions:
		return !tpu
	case "GPUS" + allRegions:
		return !tpu && o.Accelerator != ""
	case GoogleSSD, GoogleHyperdisk:
		return !tpu && GoogleUsesHyperdisk(o.InstanceType) == (group == GoogleHyperdisk)
	}
	if tpu {
		return group == GoogleTPUs(o.InstanceType)
	}
	group, spot := strings.CutPrefix(group, preemptible)
	if spot && !o.Spot {
		return false
	}
	if gpus := gpuMetrics[o.Accelerator]; gpus != "" && gpus == group {
		return true
	}
	return slices.Contains(GoogleCPUs(o.InstanceType), group)
}

// Extent returns the region and the market that a quota limits, "" for all, if it has refused an offer.
func Extent(group string, o apitypes.Offer) (region, market string) {
	market = string(dag.MarketOnDemand)
	if o.Spot {
		market = string(dag.MarketSpot)
	}
	switch {
	case group == Account:
		return "", ""
	case group == Region, group == Devices, group == GoogleSSD, group == GoogleHyperdisk:
		return o.Region, ""
	case o.Cloud != "gcp":
		return o.Region, market
	case strings.HasSuffix(group, allRegions):
		return "", ""
	case o.Spot && group != "" && !strings.HasPrefix(group, preemptible) && Counts(group, o):
		return o.Region, "" // no quota of spot machines was granted: both markets share this one
	}
	return o.Region, market
}

// AzureFamily returns the quota of an Azure machine type's family, in the way of Azure's names: standardDSv3Family of
// Standard_D4s_v3. Types with the same name share a quota, whether or not Azure spells it like this.
func AzureFamily(instanceType string) string {
	name, ok := strings.CutPrefix(instanceType, "Standard_")
	if !ok {
		return ""
	}
	size, rest, _ := strings.Cut(name, "_")
	letters := size[:len(size)-len(strings.TrimLeft(size, upper))]
	features := strings.ToUpper(strings.TrimLeft(size[len(letters):], "0123456789-"))
	switch letters {
	case "B": // one quota for B1s and B2ms
		features = strings.TrimPrefix(features, "M")
	case "M": // one quota for M8ms, M64s, M64ls and M64ts
		features = strings.TrimLeft(features, "LMT")
	}
	return "standard" + letters + features + strings.ReplaceAll(rest, "_", "") + "Family"
}

const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

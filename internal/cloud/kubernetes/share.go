package kubernetes

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NVIDIA's device plugin offers parts of GPUs. It offers time-slicing and MPS under the name nvidia.com/gpu.shared
// (its setting renameByDefault), and MIG under a name for each profile (its strategy "mixed"). Shares with the name
// nvidia.com/gpu cannot be distinguished from whole devices, and are sold as whole ones.

const (
	vendor    = "nvidia.com/"
	shared    = "shared"
	migPrefix = "mig-"
)

// resourceOf returns the resource of a share; empty if the share is invalid.
func resourceOf(share string) corev1.ResourceName {
	switch {
	case share == "":
		return GPU
	case share == shared:
		return GPU + "." + shared
	case strings.HasPrefix(share, migPrefix) && share == plainName(share):
		return corev1.ResourceName(vendor + share)
	}
	return ""
}

func (s Shape) resource() corev1.ResourceName { return resourceOf(s.Part) }

// room returns the resources that a pod of the shape uses.
func (s Shape) room() Room { return Room{int64(s.VCPU * 1000), int64(s.GiB * (1 << 30)), s.GPUs, 1} }

// sharesOf returns the resources of a list that are parts of GPUs, with their quantities.
func sharesOf(list corev1.ResourceList) map[corev1.ResourceName]int64 {
	var found map[corev1.ResourceName]int64
	for name, q := range list {
		share, ok := strings.CutPrefix(string(name), vendor)
		if name == GPU+"."+shared {
			share = shared
		}
		if !ok || share != shared && !strings.HasPrefix(share, migPrefix) || q.Value() <= 0 {
			continue
		}
		if found == nil {
			found = map[corev1.ResourceName]int64{}
		}
		found[name] = q.Value()
	}
	return found
}

// shared returns the node as an entry for one kind of its GPU parts.
func (n Node) shared(labels map[string]string, name corev1.ResourceName, whole, free int64) Node {
	n.Part = strings.TrimPrefix(string(name), vendor)
	if name == GPU+"."+shared {
		n.Part = shared
	}
	n.Whole.GPUs, n.Free.GPUs = whole, free
	n.Accelerator = strings.TrimSuffix(cmp.Or(first(labels, acceleratorLabels), "GPU"), "-SHARED")
	n.OfGPU = partOf(n.Part, labels)
	return n
}

// slicesOfGPU is the number of compute slices of a GPU with MIG (NVIDIA's MIG user guide: profile Ng.Mgb has N of 7).
const slicesOfGPU = 7

// partOf returns the size of one part as a share of a GPU: for a MIG profile by its slices, and otherwise by the
// device plugin's number of replicas.
func partOf(share string, labels map[string]string) float64 {
	if profile, isMIG := strings.CutPrefix(share, migPrefix); isMIG {
		n, _, _ := strings.Cut(profile, "g")
		if slices, err := strconv.ParseFloat(n, 64); err == nil && slices >= 1 && slices <= slicesOfGPU {
			return slices / slicesOfGPU
		}
		return 1.0 / slicesOfGPU
	}
	if n, err := strconv.ParseFloat(labels["nvidia.com/gpu.replicas"], 64); err == nil && n >= 1 {
		return 1 / n
	}
	return 0.5 // an estimate: the plugin does not report the number
}

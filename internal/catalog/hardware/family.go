package hardware

import (
	"slices"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// azureType has the parts of the name of an Azure type: Standard_D4as_v5 is of the series Dasv5.
var azureType = lazyregexp.New(`^(?:Standard|Basic)_([A-Z]+)\d+(?:-\d+)?([a-z]*)(.*)$`)

// Family is the family of a machine type, as its cloud names it: c7a, n2d, Dasv5 or NCadsA100v4, gpu_h100_sxm5 of
// Lambda. All types of a family differ only in size.
func Family(cloud, instanceType string) string {
	switch cloud {
	case "azure":
		if m := azureType.FindStringSubmatch(instanceType); m != nil {
			return m[1] + m[2] + strings.ReplaceAll(m[3], "_", "")
		}
	case "gcp":
		family, rest, _ := strings.Cut(instanceType, "-")
		if family == "tpu" {
			version, _, _ := strings.Cut(rest, "-")
			return family + "-" + version
		}
		return family
	case "lambda":
		kind, rest, _ := strings.Cut(instanceType, "_")
		if _, model, sized := strings.Cut(rest, "x_"); sized {
			return kind + "_" + model
		}
	default:
		family, _, _ := strings.Cut(instanceType, ".")
		return family
	}
	return instanceType
}

// IsFamily reports whether two names are of the same family. It ignores case, and underscores, because Azure writes
// both Dasv5 and Das_v5.
func IsFamily(family, name string) bool {
	return strings.EqualFold(strings.ReplaceAll(family, "_", ""), strings.ReplaceAll(name, "_", ""))
}

// generation is the name of a processor without its variant: turin for turin-fast/core.
func generation(cpu string) string {
	cpu, _, _ = strings.Cut(strings.TrimPrefix(cpu, sharedCore), "/")
	cpu, _, _ = strings.Cut(cpu, "-")
	return cpu
}

// IsCPU reports whether a processor, as data/cpus.csv names it, matches a name: its own, or that of its generation.
func IsCPU(cpu, name string) bool {
	return cpu != "" && (strings.EqualFold(cpu, name) || strings.EqualFold(generation(cpu), name))
}

// CPUs are the names of the generations of processors, in byte order.
var CPUs = sync.OnceValue(func() (names []string) {
	for _, f := range families() {
		names = append(names, generation(f.cpu))
	}
	slices.Sort(names)
	return slices.Compact(names)
})

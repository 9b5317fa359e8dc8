// Package azureimage chooses the default image of an Azure machine type by its name. The driver and the catalogue's
// filter share it, so that no offer is made for a type without an image. It has no imports of other packages of this
// module, because functions that only buy machines do not link the catalogue.
//
// It does not know images that users or deployments name.
package azureimage

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// Class is the kind of image that a machine needs.
type Class string

// The classes: the architecture, the generation of the hypervisor, and the driver of the accelerator. The second is
// for types that boot only first-generation images.
const (
	AMD64 Class = "amd64"
	Gen1  Class = "amd64-gen1"
	ARM64 Class = "arm64"
	GPU   Class = "amd64-gpu"  // NVIDIA's open kernel modules, for Turing and later
	V100  Class = "amd64-v100" // NVIDIA's proprietary kernel modules, the only ones for Volta
	ROCm  Class = "amd64-rocm" // AMD's Instinct
)

// Reasons for which a machine type has no default image. They are constants, so that they can be counted.
const (
	WhyConfidential = "confidential machines need a security type, which the broker does not set"
	WhyNoDriver     = "no default image has a driver for its accelerator"
)

// confidential matches the types that Azure refuses without the security type ConfidentialVM: DCas, DCes, ECas, ECes
// and their like with a local disk, confidential containers (cc), and NCC. DC with Intel SGX (DCs_v2, DCs_v3, DCds_v3)
// boots without one.
//
// Source: "About Azure confidential VMs", "Size support"; github.com/skyplane-project/skyplane issue 755 has the
// refusal. In the list of SKUs these types have the capability ConfidentialComputingType.
var confidential = lazyregexp.New(`^Standard_((DC|EC)\d+(-\d+)?i?[ae]|NCC)`)

// accelerated matches the series with accelerators: N, and the FPGA of PB.
var accelerated = lazyregexp.New(`^Standard_(N|PB)`)

// drivers are the types with accelerators for which an image of Ubuntu-HPC has the driver.
//
// Sources: github.com/Azure/azhpc-images (July 2026), README, "current supported HPC/AI VM images", and
// components/install_nvidiagpudriver.sh (V100 needs the proprietary kernel modules, and the image 2204 has the open
// ones); github.com/NVIDIA/open-gpu-kernel-modules, README (Turing or later); github.com/Azure/azhpc-extensions,
// NvidiaGPU/Nvidia-GPU-Linux-Resources.json (NVv3 and NVadsA10_v5 need the GRID driver, which no image has).
// Kubernetes on Azure treats NCads_A10_v4 like NVadsA10_v5 (github.com/Azure/AgentBaker, pull request 7986).
var drivers = []struct {
	names lazyregexp.Regexp
	class Class
}{
	{lazyregexp.New(`^Standard_N[CD]\d+[a-z]*_(T4|A100|H100|H200)_v\d+$`), GPU},
	{lazyregexp.New(`^Standard_ND\d+asr_v4$`), GPU},
	{lazyregexp.New(`^Standard_(NC\d+r?s_v3|ND\d+rs_v2)$`), V100},
	{lazyregexp.New(`^Standard_ND\d+isr?_MI300X_v5$`), ROCm},
}

// size matches a machine type's name. Letters after the number of vCPUs are features, and p means ARM ("Azure virtual
// machine sizes naming conventions"): Standard_D2ps_v5, Standard_E4pds_v6.
var size = lazyregexp.New(`^(?:Standard|Basic)_([A-Z]+)([0-9]+)(?:-[0-9]+)?([a-z]*)`)

// firstGeneration matches families that cannot boot second-generation images ("Support for Generation 2 VMs on
// Azure").
var firstGeneration = lazyregexp.New(`^(Basic_A\d+|Standard_(A\d+m?(_v2)?|D\d+|GS?\d|NC\d+r?|NV\d+))$`)

// IsARM reports whether a machine type has an Arm processor, according to its features or its accelerator (Grace). If
// the list of SKUs is available, the capability CpuArchitectureType there is the better source.
func IsARM(instanceType string) bool {
	m := size.FindStringSubmatch(instanceType)
	return m != nil && strings.Contains(m[3], "p") || grace.MatchString(instanceType)
}

// grace matches the types with a Grace processor: GB200, GB300.
var grace = lazyregexp.New(`_GB\d+_`)

// Of returns the class of the default image of a machine type. why is not empty if no default image boots on it, or
// if none has a driver for its accelerator.
func Of(instanceType string) (class Class, why string) {
	class = AMD64
	switch {
	case IsARM(instanceType):
		class = ARM64
	case firstGeneration.MatchString(instanceType):
		class = Gen1
	}
	switch {
	case confidential.MatchString(instanceType):
		return class, WhyConfidential
	case !accelerated.MatchString(instanceType):
		return class, ""
	}
	for _, d := range drivers {
		if d.names.MatchString(instanceType) {
			return d.class, ""
		}
	}
	return class, WhyNoDriver
}

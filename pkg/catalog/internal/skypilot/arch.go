package skypilot

import (
	"strings"
)

// IsARM reports whether a machine type is Arm, by each cloud's naming rules, for files without an Arch column.
// Unknown clouds and types are x86-64.
func IsARM(cloud, instanceType string) bool {
	switch cloud {
	case "aws":
		return isGraviton(instanceType)
	case "azure":
		return isAzureARM(instanceType)
	case googleCloud:
		// Tau T2A is Ampere, C4A and N4A are Axion, A4X is Grace.
		series, _, _ := strings.Cut(instanceType, "-")
		return series == "t2a" || series == "c4a" || series == "n4a" || series == "a4x"
	case "lambda":
		return strings.Contains(instanceType, "gh200") || strings.Contains(instanceType, "gb200")
	}
	return false
}

// isGraviton reports whether an AWS machine type is Arm: it has a g among the letters after the generation (m6g,
// c7gn, im4gn, g5g), or is A1, which is older than this convention.
func isGraviton(instanceType string) bool {
	family, _, _ := strings.Cut(instanceType, ".")
	family, _, _ = strings.Cut(family, "-")
	if family == "a1" {
		return true
	}
	generation := strings.IndexAny(family, "0123456789")
	return generation > 0 && strings.HasPrefix(strings.TrimLeft(family[generation:], "0123456789"), "g")
}

// isAzureARM reports whether an Azure machine type is Arm: it has a p among the features, the letters after the vCPUs
// (Standard_D16pls_v5), or a Grace processor (Standard_ND128isr_NDR_GB200_v6).
func isAzureARM(instanceType string) bool {
	if strings.Contains(instanceType, "_GB200_") || strings.Contains(instanceType, "_GB300_") {
		return true
	}
	_, size, _ := strings.Cut(instanceType, "_")
	size, _, _ = strings.Cut(size, "_")
	digit := strings.IndexAny(size, "0123456789")
	return digit >= 0 && strings.Contains(size[digit:], "p")
}

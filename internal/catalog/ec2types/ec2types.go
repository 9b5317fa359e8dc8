// Package ec2types derives facts about EC2 machine types from their names: the class of the default image, and the
// class of types that share a vCPU quota. The driver, the broker and the catalogue's filter share them. It imports no
// other package of the project, because functions that only buy machines do not link the catalogue.
//
// It does not know images that users or deployments name, nor the quotas of an account.
package ec2types

import (
	"slices"
	"strings"
)

// Class is the kind of software that a machine needs from its image.
type Class int

// The classes. Plain needs no driver. NVIDIA and Neuron need the driver of their accelerators.
const (
	Plain Class = iota
	NVIDIA
	Neuron
)

// Reasons for which a machine type has no default image. They are constants, so that they can be counted.
const (
	WhyA1       = "Amazon Linux 2023 does not boot on A1 (Graviton 1)"
	WhyHVM      = "the type has no hardware virtualisation, which the images of Amazon Linux 2023 need"
	WhyMetal    = "bare metal takes longer to boot than the broker waits"
	WhyMac      = "Mac machines need a dedicated host"
	WhyNoDriver = "no default image has a driver for its accelerator"
)

// The families that an image supports.
//
// Sources: AWS Deep Learning AMIs Developer Guide, release notes of the Base OSS Nvidia Driver GPU AMI (Amazon Linux
// 2023) 20260901 for x86_64 and 20260917 for ARM64, "supported_ec2_instances"; AWS Neuron documentation, "Neuron DLAMI
// User Guide", which ends the support of Inf1 with release 2.26.1.
var (
	nvidia = []string{
		"g4dn", "g5", "g6", "gr6", "gr6f", "g6e", "g6f", "g7", "g7e", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200",
		"p6-b300", "g5g", "p6e-gb200", "p6e-gb300",
	}
	neuron = []string{"inf2", "trn1", "trn1n", "trn2", "trn2u"}
)

// noHVM are the families with paravirtualisation only (EC2 User Guide, "Virtualization types").
var noHVM = []string{"t1", "c1", "m1", "m2"}

// accelerated are the series whose machines have an accelerator: GPU, Inferentia and Trainium, video transcoders,
// FPGA, and Gaudi.
var accelerated = []string{"g", "gr", "p", "inf", "trn", "vt", "f", "dl"}

// ImageOf returns the class of the default image of a machine type. why is not empty if no default image boots on it,
// or if none has a driver for its accelerator.
func ImageOf(instanceType string) (class Class, why string) {
	family, size, _ := strings.Cut(instanceType, ".")
	series := seriesOf(family)
	switch {
	case strings.HasPrefix(family, "mac"):
		return Plain, WhyMac
	case family == "a1": // AL2023 User Guide, "System requirements": ARMv8.2 with the cryptography extension
		return Plain, WhyA1
	case slices.Contains(noHVM, family):
		return Plain, WhyHVM
	case strings.HasPrefix(size, "metal"):
		return Plain, WhyMetal
	case slices.Contains(nvidia, family):
		return NVIDIA, ""
	case slices.Contains(neuron, family):
		return Neuron, ""
	case slices.Contains(accelerated, series):
		return Plain, WhyNoDriver
	}
	return Plain, ""
}

func seriesOf(family string) string {
	return family[:len(family)-len(strings.TrimLeft(family, "abcdefghijklmnopqrstuvwxyz"))]
}

// QuotaClass returns the class of machine types that share a vCPU quota with this one: standard, g, p, inf, trn, x, f,
// dl, hpc or u. It is "" if the type has a separate quota. On demand, P5 and P6 count against the quota of all P types;
// their spot requests have a separate quota, p5.
//
// Source: Service Quotas, Amazon EC2: "Running On-Demand P instances", "All P4, P3 and P2 Spot Instance Requests",
// "All P5 Spot Instance Requests", and the same names for the other classes.
func QuotaClass(instanceType string, spot bool) string {
	family, _, _ := strings.Cut(instanceType, ".")
	switch series := seriesOf(family); series {
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		return "standard"
	case "g", "gr", "vt":
		return "g"
	case "p":
		switch {
		case !spot:
			return "p"
		case strings.HasPrefix(family, "p5"):
			return "p5"
		case strings.HasPrefix(family, "p6"):
			return ""
		}
		return "p"
	case "inf", "trn", "x", "f", "dl", "hpc", "u":
		return series
	}
	return ""
}

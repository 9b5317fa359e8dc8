package skypilot

import (
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
)

// corrections has the right accelerators of machine types for which the sources have none or the
// wrong one. Without it, such machines would be offered as machines without accelerators. The
// sources derive accelerators from fields that clouds fill in for GPUs only, list Trainium as
// Inferentia, and count a fraction of an MI25 as one.
//
// Source: the clouds' descriptions of the instance families: EC2 Trn1, Trn1n, Trn2, DL1, VT1, F1,
// F2; Azure NP, NVv4, NGads V620, NVads V710 v5, ND MI300X v5, ND GB200 v6.
var corrections = map[string]map[string]accel.Spec{
	"aws": {
		"trn1.2xlarge":   {Name: "Trainium", Count: 1},
		"trn1.32xlarge":  {Name: "Trainium", Count: 16},
		"trn1n.32xlarge": {Name: "Trainium", Count: 16},
		"trn2.48xlarge":  {Name: "Trainium2", Count: 16},
		"dl1.24xlarge":   {Name: "Gaudi", Count: 8},
		"vt1.3xlarge":    {Name: "U30", Count: 1},
		"vt1.6xlarge":    {Name: "U30", Count: 2},
		"vt1.24xlarge":   {Name: "U30", Count: 8},
		"f1.2xlarge":     {Name: "VU9P", Count: 1},
		"f1.4xlarge":     {Name: "VU9P", Count: 2},
		"f1.16xlarge":    {Name: "VU9P", Count: 8},
		"f2.6xlarge":     {Name: "VU47P", Count: 1},
		"f2.12xlarge":    {Name: "VU47P", Count: 2},
		"f2.48xlarge":    {Name: "VU47P", Count: 8},
	},
	"azure": {
		"Standard_NP10s":                 {Name: "Alveo-U250", Count: 1},
		"Standard_NP20s":                 {Name: "Alveo-U250", Count: 2},
		"Standard_NP40s":                 {Name: "Alveo-U250", Count: 4},
		"Standard_NV4as_v4":              {Name: "MI25", Count: 0.125},
		"Standard_NV8as_v4":              {Name: "MI25", Count: 0.25},
		"Standard_NV16as_v4":             {Name: "MI25", Count: 0.5},
		"Standard_NV32as_v4":             {Name: "MI25", Count: 1},
		"Standard_NG8ads_V620_v1":        {Name: "Radeon-Pro-V620", Count: 0.25},
		"Standard_NG16ads_V620_v1":       {Name: "Radeon-Pro-V620", Count: 0.5},
		"Standard_NG32ads_V620_v1":       {Name: "Radeon-Pro-V620", Count: 1},
		"Standard_NV4ads_V710_v5":        {Name: "Radeon-Pro-V710", Count: 0.167},
		"Standard_NV8ads_V710_v5":        {Name: "Radeon-Pro-V710", Count: 0.333},
		"Standard_NV12ads_V710_v5":       {Name: "Radeon-Pro-V710", Count: 0.5},
		"Standard_NV24ads_V710_v5":       {Name: "Radeon-Pro-V710", Count: 1},
		"Standard_NV28adms_V710_v5":      {Name: "Radeon-Pro-V710", Count: 1},
		"Standard_ND96is_MI300X_v5":      {Name: "MI300X", Count: 8},
		"Standard_ND128isr_NDR_GB200_v6": {Name: "GB200", Count: 4},
	},
}

// correct replaces the accelerator of a row if the source is known to be wrong, and the vCPUs of a constrained type of
// Azure: the source has the number that is billed.
func correct(cloud string, r *row) {
	if cloud == "azure" {
		if n, ok := constrained(r.instanceType); ok {
			r.vcpu = n
		}
	}
	if spec, ok := corrections[cloud][r.instanceType]; ok {
		r.accelerator, r.count = spec.Name, spec.Count
	}
}

// constrained returns the vCPUs of a constrained type, which are the second number in its name: Standard_E8-4s_v5 has
// 4, and costs as much as Standard_E8s_v5 ("Constrained vCPU sizes for database workloads").
func constrained(instanceType string) (vcpu float64, ok bool) {
	_, size, _ := strings.Cut(instanceType, "_")
	size, _, _ = strings.Cut(size, "_")
	_, after, ok := strings.Cut(size, "-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(after[:len(after)-len(strings.TrimLeft(after, "0123456789"))])
	return float64(n), err == nil && n > 0
}

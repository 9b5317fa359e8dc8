package sellable_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Each invented offer violates one rule, and must be dropped. If the rule is about a family or a series, no real
// machine type has the offer's name, so a rule that only lists today's names would fail the test.
func TestInventedOffersAreDropped(t *testing.T) {
	offer := func(cloud, instanceType, accelerator string) catalog.Offer {
		o := catalog.Offer{Cloud: cloud, Region: "r", Zone: "z", InstanceType: instanceType, VCPU: 8, MemoryGiB: 32,
			OnDemandUSD: 1, SpotUSD: 0.5, HasSpot: true}
		if accelerator != "" {
			o.Accelerator, o.AcceleratorCount = accelerator, 1
		}
		return o
	}
	onArm := offer("gcp", "a9-highgpu-4g", "GB200")
	onArm.Arch = catalog.ARM64
	spotOnly := offer("gcp", "a4-highgpu-1g", "B200")
	spotOnly.HasSpot, spotOnly.SpotUSD, spotOnly.SpotOnly = false, 0, true
	bad := map[string]struct {
		catalog.Offer
		why string
	}{
		"A1":                              {offer("aws", "a1.32xlarge", ""), "Graviton 1"},
		"no HVM":                          {offer("aws", "m2.32xlarge", ""), "hardware virtualisation"},
		"bare metal of AWS":               {offer("aws", "c99.metal-96xl", ""), "bare metal"},
		"Mac":                             {offer("aws", "mac9-m9.metal", ""), "dedicated host"},
		"GPU of AWS without a driver":     {offer("aws", "g99.xlarge", "L4"), "driver"},
		"accelerator of a plain family":   {offer("aws", "m99d.xlarge", "A10G"), "driver"},
		"new Neuron":                      {offer("aws", "trn9.2xlarge", "Trainium"), "driver"},
		"FPGA":                            {offer("aws", "f9.2xlarge", ""), "driver"},
		"bare metal of Google":            {offer("gcp", "c9-standard-9-metal", ""), "bare metal"},
		"spot only without a spot price":  {spotOnly, "spot only"},
		"GPU on Arm at Google":            {onArm, "driver"},
		"A4X":                             {offer("gcp", "a4x-highgpu-9g", "GB200"), "driver"},
		"K80":                             {offer("gcp", "n1-standard-4", "K80"), "driver"},
		"confidential by AMD":             {offer("azure", "Standard_DC8as_v99", ""), "confidential"},
		"confidential by Intel":           {offer("azure", "Standard_EC8es_v99", ""), "confidential"},
		"confidential GPU":                {offer("azure", "Standard_NCC8ads_H100_v99", "H100"), "confidential"},
		"GRID":                            {offer("azure", "Standard_NV8ads_A10_v99", "A10"), "driver"},
		"AMD of an unknown generation":    {offer("azure", "Standard_ND8is_MI999X_v9", "MI300X"), "driver"},
		"GPU of Azure on Arm":             {offer("azure", "Standard_ND8isr_GB999_v9", "GB200"), "driver"},
		"FPGA of Azure":                   {offer("azure", "Standard_NP99s_v9", ""), "driver"},
		"accelerator of a plain series":   {offer("azure", "Standard_D8ds_v99", "A100"), "driver"},
		"accelerator of a general series": {offer("azure", "Standard_E8ps_v99", "H100"), "driver"},
	}
	good := []catalog.Offer{offer("aws", "m99.xlarge", ""), offer("gcp", "c99-standard-8", ""), offer("azure", "Standard_D8s_v99", ""),
		offer("gcp", "n1-standard-8", "T4"), offer("lambda", "gpu_8x_h100", "H100")}
	all := append([]catalog.Offer{}, good...)
	for _, b := range bad {
		all = append(all, b.Offer)
	}
	shipped, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	c, err := shipped.Replace(func(*catalog.Offer) bool { return true }, all)
	if err != nil {
		t.Fatal(err)
	}
	kept, dropped, err := sellable.Only(c)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, count := range dropped {
		n += count
	}
	if kept.Len() != len(good) || n != len(bad) {
		t.Errorf("%d of %d are kept, %d are counted as dropped: %v", kept.Len(), len(good), n, dropped)
	}
	for name, b := range bad {
		if why := sellable.Refused(b.Offer); !strings.Contains(why, b.why) {
			t.Errorf("%s: %q, want %q", name, why, b.why)
		}
	}
}

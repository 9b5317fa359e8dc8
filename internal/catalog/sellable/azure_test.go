package sellable

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/azureimage"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Types without a default image must be refused. The sources are in package azureimage. Azure's refusal of a
// confidential size: "The VM size 'Standard_DC2as_v5' is not supported for creation of VMs and Virtual Machine Scale
// Set with '<NULL>' security type" (skyplane issue 755).
func TestAzureTypesWithoutDefaultImageAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"Standard_DC2as_v5": azureimage.WhyConfidential, "Standard_DC96ads_v6": azureimage.WhyConfidential,
		"Standard_DC96es_v6": azureimage.WhyConfidential, "Standard_DC2eds_v5": azureimage.WhyConfidential,
		"Standard_EC96ias_v5": azureimage.WhyConfidential, "Standard_EC96iads_v5": azureimage.WhyConfidential,
		"Standard_EC8es_v6": azureimage.WhyConfidential, "Standard_DC4as_cc_v5": azureimage.WhyConfidential,
		"Standard_NCC40ads_H100_v5": azureimage.WhyConfidential,
		"Standard_DC8_v2":           "", "Standard_DC1s_v2": "", "Standard_DC8s_v3": "", "Standard_DC8ds_v3": "",

		"Standard_NV12s_v3": azureimage.WhyNoDriver, "Standard_NV36ads_A10_v5": azureimage.WhyNoDriver,
		"Standard_NC8ads_A10_v4": azureimage.WhyNoDriver, "Standard_NV4as_v4": azureimage.WhyNoDriver,
		"Standard_NG8ads_V620_v1": azureimage.WhyNoDriver, "Standard_NV4ads_V710_v5": azureimage.WhyNoDriver,
		"Standard_NP10s": azureimage.WhyNoDriver, "Standard_PB6s": azureimage.WhyNoDriver,
		"Standard_NC6": azureimage.WhyNoDriver, "Standard_NC6s_v2": azureimage.WhyNoDriver,
		"Standard_ND128isr_NDR_GB200_v6": azureimage.WhyNoDriver, "Standard_ND128isr_GB300_v6": azureimage.WhyNoDriver,
		"Standard_NC128ds_xl_RTXPRO6000BSE_v6": azureimage.WhyNoDriver,

		"Standard_NC4as_T4_v3": "", "Standard_NC24ads_A100_v4": "", "Standard_ND96asr_v4": "",
		"Standard_ND96amsr_A100_v4": "", "Standard_NC40ads_H100_v5": "", "Standard_NC80adis_H100_v5": "",
		"Standard_ND96isr_H100_v5": "", "Standard_ND96isr_H200_v5": "", "Standard_ND96is_MI300X_v5": "",
		"Standard_NC24rs_v3": "", "Standard_NC6s_v3": "", "Standard_ND40rs_v2": "",
		"Standard_D2ps_v5": "", "Standard_E96-48ads_v7": "", "Standard_HB120-96rs_v3": "", "Standard_M96bds_2_v3": "",
	} {
		if got := azure(catalog.Offer{Cloud: "azure", InstanceType: name}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Every machine with a GPU in the published data must either have an image with the GPU's driver or be refused. The
// counts are in docs/real-accounts.md.
func TestAzureOffersOfPublishedData(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	dropped, offers := map[string]int{}, 0
	for o := range c.All() {
		if o.Cloud != "azure" {
			continue
		}
		offers++
		class, why := azureimage.Of(o.InstanceType)
		if why != "" {
			dropped[why]++
			continue
		}
		if driver := class == azureimage.GPU || class == azureimage.V100 || class == azureimage.ROCm; driver != (o.Accelerator != "") {
			t.Errorf("%s with %q has an image of class %s", o.InstanceType, o.Accelerator, class)
		}
		if arm := class == azureimage.ARM64; arm != (o.Arch == catalog.ARM64) {
			t.Errorf("%s of %s has an image of class %s", o.InstanceType, o.Arch, class)
		}
	}
	for why, n := range dropped {
		t.Logf("%5d offers of %d dropped: %s", n, offers, why)
	}
}

package quotas_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func offer(cloud, instanceType string, spot bool) apitypes.Offer {
	return apitypes.Offer{Cloud: cloud, Region: "r1", InstanceType: instanceType, Spot: spot}
}

func gpu(o apitypes.Offer, accelerator string) apitypes.Offer {
	o.Accelerator, o.AccelCount = accelerator, 1
	return o
}

func TestMachinesCountAgainstTheirQuotas(t *testing.T) {
	d := offer("azure", "Standard_D4s_v3", false)
	n1 := offer("gcp", "n1-standard-4", false)
	for _, c := range []struct {
		group string
		offer apitypes.Offer
		want  bool
	}{
		{"standard", offer("aws", "m5.large", false), true},
		{"SSD_TOTAL_GB", offer("gcp", "n2-standard-4", true), true},
		{"SSD_TOTAL_GB", offer("gcp", "n4-standard-4", false), false},
		{"HDB_TOTAL_GB", offer("gcp", "n4-standard-4", false), true},
		{"HDB_TOTAL_GB", offer("gcp", "a3-ultragpu-8g", false), true},
		{"HDB_TOTAL_GB", offer("gcp", "a3-highgpu-8g", false), false},
		{"SSD_TOTAL_GB", offer("gcp", "tpu-v3-8", false), false},
		{"devices", gpu(offer("kubernetes", "node", false), "A100"), true},
		{"devices", offer("kubernetes", "node", false), false},
		{"devices", gpu(offer("aws", "p4d.24xlarge", false), "A100"), false},
		{"machines", offer("kubernetes", "node", false), true},
		{"standard", offer("aws", "p3.2xlarge", false), false},
		{"p5", offer("aws", "p5.48xlarge", true), true},
		{quotas.AzureCores, d, true},
		{quotas.AzureCores, offer("azure", "Standard_NC6s_v3", false), true},
		{quotas.AzureCores, offer("azure", "Standard_D4s_v3", true), false},
		{quotas.AzureSpot, offer("azure", "Standard_NC6s_v3", true), true},
		{quotas.AzureSpot, d, false},
		{"standardDSv3Family", d, true},
		{"standardDSv3Family", offer("azure", "Standard_D4s_v5", false), false},
		// spot machines do not count against a family's quota
		{"standardDSv3Family", offer("azure", "Standard_D4s_v3", true), false},
		{"CPUS", n1, true},
		{"CPUS", offer("gcp", "e2-standard-4", true), true}, // unless a quota for spot machines was granted
		{"CPUS", offer("gcp", "n2-standard-4", false), false},
		{"N2_CPUS", offer("gcp", "n2-standard-4", false), true},
		{"PREEMPTIBLE_CPUS", n1, false},
		{"PREEMPTIBLE_CPUS", offer("gcp", "n1-standard-4", true), true},
		{"CPUS_ALL_REGIONS", offer("gcp", "c3-standard-4", true), true},
		{"CPUS_ALL_REGIONS", gpu(offer("gcp", "tpu-v3-8", false), "TPUv3"), false},
		{"tpu-v3", gpu(offer("gcp", "tpu-v3-8", false), "TPUv3"), true},
		{"tpu-v3", gpu(offer("gcp", "tpu-v5e-8", false), "TPUv5e"), false},
		{"GPUS_ALL_REGIONS", n1, false},
		{"GPUS_ALL_REGIONS", gpu(n1, "T4"), true},
		{"NVIDIA_T4_GPUS", gpu(n1, "T4"), true},
		{"NVIDIA_T4_GPUS", gpu(offer("gcp", "g2-standard-4", false), "L4"), false},
		{"PREEMPTIBLE_NVIDIA_T4_GPUS", gpu(n1, "T4"), false},
		{quotas.Region, n1, true},
		{quotas.Account, offer("lambda", "gpu_1x_a10", false), true},
	} {
		if got := quotas.Counts(c.group, c.offer); got != c.want {
			t.Errorf("%s counts against %s of %s: %v", c.offer.InstanceType, c.group, c.offer.Cloud, got)
		}
	}
}

func TestQuotaLimitsItsRegionAndMarket(t *testing.T) {
	for _, c := range []struct {
		group          string
		offer          apitypes.Offer
		region, market string
	}{
		{"standard", offer("aws", "m5.large", true), "r1", "spot"},
		{quotas.AzureCores, offer("azure", "Standard_D4s_v3", false), "r1", "on-demand"},
		{"CPUS", offer("gcp", "n1-standard-4", false), "r1", "on-demand"},
		{"CPUS", offer("gcp", "n1-standard-4", true), "r1", ""},
		{"PREEMPTIBLE_CPUS", offer("gcp", "n1-standard-4", true), "r1", "spot"},
		{"CPUS_ALL_REGIONS", offer("gcp", "n1-standard-4", true), "", ""},
		{"GPUS_ALL_REGIONS", gpu(offer("gcp", "n1-standard-4", false), "T4"), "", ""},
		{"", offer("gcp", "c3-standard-4", true), "r1", "spot"},
		{quotas.Region, offer("aws", "m5.large", true), "r1", ""},
		{quotas.Account, offer("lambda", "gpu_1x_a10", false), "", ""},
	} {
		region, market := quotas.Extent(c.group, c.offer)
		if region != c.region || market != c.market {
			t.Errorf("%s limits %q %q, want %q %q", c.group, region, market, c.region, c.market)
		}
	}
}

// The names of the families must be those that `az vm list-usage` prints.
func TestAzureFamilies(t *testing.T) {
	for name, want := range map[string]string{
		"Standard_D4s_v3":          "standardDSv3Family",
		"Standard_D4_v3":           "standardDv3Family",
		"Standard_D4ads_v5":        "standardDADSv5Family",
		"Standard_DS2_v2":          "standardDSv2Family",
		"Standard_E4-2s_v5":        "standardESv5Family",
		"Standard_F4s_v2":          "standardFSv2Family",
		"Standard_B2ms":            "standardBSFamily",
		"Standard_B1s":             "standardBSFamily",
		"Standard_B2ls_v2":         "standardBLSv2Family",
		"Standard_M64ls":           "standardMSFamily",
		"Standard_NC24ads_A100_v4": "standardNCADSA100v4Family",
		"Standard_HB120rs_v3":      "standardHBRSv3Family",
		"other":                    "",
	} {
		if got := quotas.AzureFamily(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestQuotasOfDisksAndNamespacesLimitBothMarkets(t *testing.T) {
	for _, c := range []struct {
		group string
		offer apitypes.Offer
	}{
		{"SSD_TOTAL_GB", offer("gcp", "n2-standard-4", true)}, {"SSD_TOTAL_GB", offer("gcp", "n2-standard-4", false)},
		{"HDB_TOTAL_GB", offer("gcp", "n4-standard-4", false)}, {"devices", offer("kubernetes", "node", false)},
		{"machines", offer("kubernetes", "node", true)},
	} {
		if region, market := quotas.Extent(c.group, c.offer); region != "r1" || market != "" {
			t.Errorf("%s: region %q, market %q", c.group, region, market)
		}
	}
}

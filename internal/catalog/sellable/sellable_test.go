package sellable_test

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// It must be possible to buy every offer of the shipped catalogue with the default image and settings of its cloud.
func TestShippedCatalogueHasOnlySellableOffers(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	_, dropped, err := sellable.Only(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range slices.Sorted(maps.Keys(dropped)) {
		t.Errorf("%5d offers, %s", dropped[why], why)
	}
}

// Offers that cannot be bought must be dropped from the published data. The test prints the counts that
// docs/real-accounts.md states.
func TestPublishedDataDropsUnsellableOffers(t *testing.T) {
	const data = "../../../../shared/data/catalog"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the public data is missing: %v", err)
	}
	all, err := catalog.Load(os.DirFS(data))
	if err != nil {
		t.Fatal(err)
	}
	kept, dropped, err := sellable.Only(all)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, why := range slices.Sorted(maps.Keys(dropped)) {
		t.Logf("%5d offers, %s", dropped[why], why)
		n += dropped[why]
	}
	if kept.Len() != all.Len()-n || n == 0 {
		t.Errorf("%d offers of %d, %d dropped", kept.Len(), all.Len(), n)
	}
	for o := range kept.All() {
		if why := sellable.Refused(o); why != "" {
			t.Fatalf("%s is kept: %s", o.ID(), why)
		}
	}
}

// Types that no default image supports must be refused. Sources: Amazon Linux 2023 User Guide, "System requirements"
// (no A1, kernel panic in github.com/amazonlinux/amazon-linux-2023 issue 50); EC2 User Guide, "Virtualization types";
// AWS Deep Learning AMIs Developer Guide, release notes gpubaseoss-al2023-2026-09-04,
// gpubaseossarm64-al2023-2026-09-18 and base-aml2-2026-01-02 (P3 only with the proprietary driver on Amazon Linux 2,
// which has ended); AWS Neuron documentation, "Neuron DLAMI User Guide" (no Inf1 since 2.26.1).
func TestTypesWithoutDefaultImageAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"a1.medium": ec2types.WhyA1, "a1.metal": ec2types.WhyA1, "t1.micro": ec2types.WhyHVM,
		"c1.medium": ec2types.WhyHVM, "m1.small": ec2types.WhyHVM, "m2.xlarge": ec2types.WhyHVM,
		"m5.metal": ec2types.WhyMetal, "c7i.metal-24xl": ec2types.WhyMetal, "g4dn.metal": ec2types.WhyMetal,
		"u-6tb1.metal": ec2types.WhyMetal, "mac2.metal": ec2types.WhyMac,
		"p2.xlarge": ec2types.WhyNoDriver, "p3.2xlarge": ec2types.WhyNoDriver, "p3dn.24xlarge": ec2types.WhyNoDriver,
		"g3.4xlarge": ec2types.WhyNoDriver, "g4ad.xlarge": ec2types.WhyNoDriver, "inf1.xlarge": ec2types.WhyNoDriver,
		"vt1.3xlarge": ec2types.WhyNoDriver, "f1.2xlarge": ec2types.WhyNoDriver, "f2.6xlarge": ec2types.WhyNoDriver,
		"dl1.24xlarge": ec2types.WhyNoDriver, "dl2q.24xlarge": ec2types.WhyNoDriver, "p9.48xlarge": ec2types.WhyNoDriver,

		"m5.large": "", "c6g.medium": "", "m3.medium": "", "t2.micro": "", "hpc7g.16xlarge": "", "u-6tb1.56xlarge": "",
		"g4dn.xlarge": "", "g5.xlarge": "", "g5g.xlarge": "", "g6.xlarge": "", "gr6.4xlarge": "", "g6e.xlarge": "",
		"p4d.24xlarge": "", "p5.48xlarge": "", "p6-b200.48xlarge": "", "inf2.xlarge": "", "trn1.2xlarge": "",
		"is4gen.medium": "", "im4gn.large": "", "d3.xlarge": "",
	} {
		if got := sellable.Refused(catalog.Offer{Cloud: "aws", InstanceType: name}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The published data list Azure's F*ams_v6 in newzealandnorth at a tenth of their price elsewhere. Such offers must
// be dropped.
func TestImplausiblePricesAreDropped(t *testing.T) {
	shipped, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := sellable.Plausible(shipped); err != nil || len(dropped) > 0 {
		t.Errorf("the shipped catalogue has implausible prices: %v, %v", dropped, err)
	}
	var sample []catalog.Offer
	for o := range shipped.All() {
		if o.Cloud == "azure" && o.InstanceType == "Standard_F4ams_v6" {
			sample = append(sample, o)
		}
	}
	bad := sample[0]
	bad.Region, bad.OnDemandUSD, bad.SpotUSD = "nowhere", bad.OnDemandUSD/10, bad.SpotUSD/10
	cheap := sample[0]
	cheap.Region, cheap.SpotUSD = "cheap", cheap.SpotUSD/10
	few, err := shipped.Replace(func(*catalog.Offer) bool { return true }, append(sample, bad, cheap))
	if err != nil {
		t.Fatal(err)
	}
	kept, dropped, err := sellable.Plausible(few)
	if err != nil || dropped["on demand"] != 1 || dropped["spot"] != 1 || kept.Len() != len(sample)+1 {
		t.Errorf("%v, %v, %d of %d", dropped, err, kept.Len(), few.Len())
	}
	if m, err := kept.Lookup(cheap.ID()); err != nil || m.HasSpot {
		t.Errorf("%+v, %v", m, err)
	}
}

package hardware_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Burstable types of all clouds must be recognised. Each is compared with a type of a similar name that is not
// burstable, and all with the shipped catalogue. Sources: EC2 User Guide, "Burstable performance instances"; Azure,
// "B family VM size series"; Compute Engine, "Shared-core machine types".
func TestBurstableTypesOfAllClouds(t *testing.T) {
	for _, c := range []struct {
		cloud, kind string
		want        bool
	}{
		{"aws", "t2.micro", true}, {"aws", "t3a.large", true}, {"aws", "t4g.nano", true}, {"aws", "m5.large", false},
		{"aws", "trn1.2xlarge", false},
		{"azure", "Standard_B1ls", true}, {"azure", "Standard_B2s", true}, {"azure", "Standard_B16als_v2", true},
		{"azure", "Standard_D2s_v5", false}, {"azure", "Standard_ND40rs_v2", false},
		{"gcp", "e2-micro", true}, {"gcp", "e2-small", true}, {"gcp", "e2-medium", true}, {"gcp", "f1-micro", true},
		{"gcp", "g1-small", true}, {"gcp", "e2-standard-2", false}, {"gcp", "e2-highcpu-2", false},
		{"lambda", "gpu_1x_a10", false}, {"kubernetes", "t3.micro", false},
	} {
		if got := hardware.Baseline(c.cloud, c.kind) < 1; got != c.want {
			t.Errorf("%s %s is burstable: %v", c.cloud, c.kind, got)
		}
	}
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for o := range c.All() {
		if hardware.Baseline(o.Cloud, o.InstanceType) < 1 {
			n[o.Cloud]++
		}
	}
	t.Logf("burstable offers: %v", n)
	for _, cloud := range []string{"aws", "azure", "gcp"} {
		if n[cloud] == 0 {
			t.Errorf("none of %s", cloud)
		}
	}
}

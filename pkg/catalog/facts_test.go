package catalog

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
)

// The tests in this file compute facts from the published files without the package's code, and compare them with the
// package's results.

func TestCheapest8V100SpotAnywhere(t *testing.T) {
	best := math.Inf(1)
	for _, r := range raw(t, "aws") {
		if r["AcceleratorName"] == "V100" && r["AcceleratorCount"] == "8" && r["SpotPrice"] != "" {
			best = min(best, r.number("SpotPrice"))
		}
	}
	for _, r := range raw(t, "azure") {
		if r["AcceleratorName"] == "V100" && r.number("AcceleratorCount") == 8 && r["SpotPrice"] != "" {
			best = min(best, r.number("SpotPrice"))
		}
	}
	for _, gpu := range raw(t, "gcp") {
		if gpu["AcceleratorName"] != "V100" || gpu["AcceleratorCount"] != "8" {
			continue
		}
		for _, host := range raw(t, "gcp") {
			if host["AvailabilityZone"] == gpu["AvailabilityZone"] && strings.HasPrefix(host["InstanceType"], "n1-") &&
				!strings.HasSuffix(host["InstanceType"], "-tpu") && host.number("vCPUs") <= 96 && host.number("MemoryGiB") <= 624 {
				best = min(best, host.number("SpotPrice")+gpu.number("SpotPrice"))
			}
		}
	}
	found, err := everything(t).Find(Query{Accelerator: "nvidia-tesla-v100", AcceleratorCount: 8, VCPU: AtLeast(1), Market: Spot, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !sameUSD(found[0].USDPerHour, best) {
		t.Errorf("cheapest 8×V100 spot is %s at %g, the files say %g", found[0].ID(), found[0].USDPerHour, best)
	}
}

func TestCheapest8CPUs32GiBOnDemandOfEachCloud(t *testing.T) {
	c := everything(t)
	for _, cloud := range []string{"aws", "azure"} {
		best := math.Inf(1)
		for _, r := range raw(t, cloud) {
			if r["AcceleratorCount"] == "" && r.number("vCPUs") >= 8 && r.number("MemoryGiB") >= 32 {
				best = min(best, r.number("Price"))
			}
		}
		found, err := c.Find(Query{VCPU: AtLeast(8), MemoryGiB: AtLeast(32), Clouds: []string{cloud}, Market: OnDemand, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if found[0].USDPerHour != best {
			t.Errorf("%s: %s at %g, the file says %g", cloud, found[0].ID(), found[0].USDPerHour, best)
		}
	}
}

// constrained matches Azure's types with fewer vCPUs than the file says, such as Standard_E8-4s_v5.
var constrained = regexp.MustCompile(`^Standard_[A-Z]+\d+-\d+`)

func TestLoadOffersEveryRowOfAWSAzureAndLambda(t *testing.T) {
	c := everything(t)
	for _, cloud := range []string{"aws", "azure", "lambda"} {
		rows := raw(t, cloud)
		for _, r := range rows {
			id := OfferID{Cloud: cloud, Region: r["Region"], Zone: r["AvailabilityZone"], InstanceType: r["InstanceType"]}
			m, err := c.Lookup(id.String())
			if err != nil {
				t.Fatalf("%v: %v", r, err)
			}
			if constrained.MatchString(r["InstanceType"]) { // checked by TestConstrainedTypesHaveTheirOwnVCPUs
				m.VCPU = r.number("vCPUs")
			}
			if m.OnDemandUSD != r.number("Price") || m.VCPU != r.number("vCPUs") || m.MemoryGiB != r.number("MemoryGiB") {
				t.Fatalf("%v became %+v", r, m)
			}
			spot := r.number("SpotPrice")
			if wantSpot := spot > 0 && spot <= m.OnDemandUSD; m.HasSpot != wantSpot || wantSpot && m.SpotUSD != spot {
				t.Fatalf("%v became %+v", r, m)
			}
			if m.Interruption.String() != r["SpotInterruptionBand"] {
				t.Fatalf("%v became %+v", r, m)
			}
		}
		n := 0
		for o := range c.All() {
			if o.Cloud == cloud {
				n++
			}
		}
		if n != len(rows) {
			t.Errorf("%s: %d offers of %d rows", cloud, n, len(rows))
		}
	}
}

func TestLoadUsesEveryRowOfGoogle(t *testing.T) {
	c := everything(t)
	counts := make(map[string]int)
	for _, r := range raw(t, "gcp") {
		_, err := c.Lookup(OfferID{Cloud: "gcp", Region: r["Region"], Zone: r["AvailabilityZone"], InstanceType: r["InstanceType"]}.String())
		sold := err == nil
		series, _, _ := strings.Cut(r["InstanceType"], "-")
		switch {
		case r["InstanceType"] == "":
			counts["accelerators"]++
			placeholder := strings.HasPrefix(r["AcceleratorName"], "tpu-v6e") && r["Price"] == "700.0"
			if strings.HasPrefix(r["AcceleratorName"], "tpu-") {
				_, err := c.Lookup("gcp/" + r["Region"] + "/" + r["AvailabilityZone"] + "/" + r["AcceleratorName"])
				if (err == nil) == placeholder {
					t.Fatalf("%v: %v", r, err)
				}
			}
		case strings.HasSuffix(r["InstanceType"], "-tpu"):
			counts["TPU hosts"]++
			if sold {
				t.Fatalf("%v is offered", r)
			}
		case series == "a2" || series == "a3" || series == "a4" || series == "g2":
			counts["GPU hosts"]++
			if sold {
				m, _ := c.Lookup("gcp/" + r["Region"] + "/" + r["AvailabilityZone"] + "/" + r["InstanceType"])
				if m.Accelerator == "" || m.OnDemandUSD <= r.number("Price") {
					t.Fatalf("%v is offered without its GPU: %+v", r, m)
				}
			}
		default:
			counts["machines"]++
			if !sold {
				t.Fatalf("%v is not offered: %v", r, err)
			}
		}
	}
	for _, kind := range []string{"accelerators", "TPU hosts", "GPU hosts", "machines"} {
		if counts[kind] == 0 {
			t.Errorf("the file has no %s: the test proves nothing about them", kind)
		}
	}
}

func TestGoogleGPUPricesAddToHostPrices(t *testing.T) {
	price := make(map[[4]string]rawRow)
	for _, r := range raw(t, "gcp") {
		price[[4]string{r["AvailabilityZone"], r["InstanceType"], r["AcceleratorName"], r["AcceleratorCount"]}] = r
	}
	limits := map[string][2]float64{
		"T4:1": {48, 312}, "T4:2": {48, 312}, "T4:4": {96, 624},
		"P4:1": {24, 156}, "P4:2": {48, 312}, "P4:4": {96, 624},
		"V100:1": {12, 78}, "V100:2": {24, 156}, "V100:4": {48, 312}, "V100:8": {96, 624},
		"P100:1": {16, 104}, "P100:2": {32, 208}, "P100:4": {96, 624},
	}
	combined := 0
	for o := range everything(t).All() {
		if o.Cloud != "gcp" || o.Accelerator == "" || strings.HasPrefix(o.Accelerator, "tpu-") {
			continue
		}
		combined++
		host := price[[4]string{o.Zone, o.InstanceType, "", ""}]
		gpu := price[[4]string{o.Zone, "", o.Accelerator, formatCount(o.AcceleratorCount)}]
		if host == nil || gpu == nil {
			t.Fatalf("%s: no such host or GPU in its zone", o.ID())
		}
		if !sameUSD(o.OnDemandUSD, host.number("Price")+gpu.number("Price")) {
			t.Fatalf("%s costs %g, its parts %s + %s", o.ID(), o.OnDemandUSD, host["Price"], gpu["Price"])
		}
		if o.HasSpot && !sameUSD(o.SpotUSD, host.number("SpotPrice")+gpu.number("SpotPrice")) {
			t.Fatalf("%s costs %g as spot, its parts %s + %s", o.ID(), o.SpotUSD, host["SpotPrice"], gpu["SpotPrice"])
		}
		if o.Attached != strings.HasPrefix(o.InstanceType, "n1-") {
			t.Fatalf("%s: attached is %v", o.ID(), o.Attached)
		}
		if o.Attached {
			limit := limits[o.Accelerator+":"+formatCount(o.AcceleratorCount)]
			if o.VCPU > limit[0] || o.MemoryGiB > limit[1] {
				t.Fatalf("%s: a host of %g vCPUs and %g GiB is above Google's limit of %v", o.ID(), o.VCPU, o.MemoryGiB, limit)
			}
		}
	}
	if combined < 1000 {
		t.Errorf("only %d combinations", combined)
	}
}

func TestFourP100HaveSmallerHostsInThreeZones(t *testing.T) {
	largest := make(map[string]float64)
	for o := range everything(t).All() {
		if o.Cloud == "gcp" && o.Accelerator == "P100" && o.AcceleratorCount == 4 {
			largest[o.Zone] = max(largest[o.Zone], o.VCPU)
		}
	}
	for zone, want := range map[string]float64{"us-east1-c": 64, "europe-west1-b": 64, "europe-west1-d": 64, "us-west1-a": 96, "us-central1-c": 96} {
		if largest[zone] != want {
			t.Errorf("%s: the largest host of 4 P100 has %g vCPUs, want %g", zone, largest[zone], want)
		}
	}
}

func TestKnownHostsOfBuiltInAccelerators(t *testing.T) {
	c := everything(t)
	for id, want := range map[string]string{
		"gcp/us-central1/us-central1-a/a2-highgpu-8g":  "A100:8",
		"gcp/us-central1/us-central1-a/a2-ultragpu-1g": "A100-80GB:1",
		"gcp/us-central1/us-central1-a/a2-megagpu-16g": "A100:16",
		"gcp/us-central1/us-central1-a/g2-standard-96": "L4:8",
		"gcp/us-central1/us-central1-a/g2-standard-32": "L4:1",
		"gcp/us-central1/us-central1-a/a3-highgpu-8g":  "H100:8",
		"gcp/us-central1/us-central1-a/a3-megagpu-8g":  "H100-MEGA:8",
		"gcp/us-central1/us-central1-b/a3-ultragpu-8g": "H200:8",
		"gcp/us-central1/us-central1-b/a4-highgpu-8g":  "B200:8",
		"aws/us-east-2/use2-az1/trn2.48xlarge":         "Trainium2:16",
		"aws/us-east-1/use1-az1/p3.2xlarge":            "V100:1",
		"azure/eastus/Standard_NV4as_v4":               "MI25:0.125",
		"lambda/us-east-1/gpu_1x_gh200":                "GH200:1",
	} {
		m, err := c.Lookup(id)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := spec(&m.Offer); got != want {
			t.Errorf("%s carries %s, want %s", id, got, want)
		}
	}
}

func TestTPUSlicesIncludeTheirHosts(t *testing.T) {
	c := everything(t)
	for id, want := range map[string][3]float64{ // USD/h, vCPUs, GiB
		"gcp/us-central1/us-central1-a/tpu-v3-8":        {8, 96, 340},
		"gcp/us-central2/us-central2-b/tpu-v4-16":       {25.76, 480, 814},
		"gcp/us-central1/us-central1-a/tpu-v5litepod-8": {9.6, 224, 384},
		"gcp/us-central1/us-central1-a/tpu-v6e-16":      {43.2, 720, 2880},
		"gcp/us-central1/us-central1-a/tpu-v5p-8":       {16.8, 208, 448},
	} {
		m, err := c.Lookup(id + "/on-demand")
		if err != nil {
			t.Error(err)
			continue
		}
		if got := [3]float64{m.USDPerHour, m.VCPU, m.MemoryGiB}; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestPlaceholderPricesOfTPUv6eAreNotOffered(t *testing.T) {
	c := everything(t)
	if m, err := c.Lookup("gcp/us-central2/us-central2-b/tpu-v6e-1"); err == nil {
		t.Errorf("%s is offered at %g", m.ID(), m.USDPerHour)
	}
	m, err := c.Lookup("gcp/southamerica-west1/southamerica-west1-a/tpu-v6e-256")
	if err != nil || m.HasSpot || m.OnDemandUSD != 691.2 {
		t.Errorf("%+v, %v; want it on-demand only at 691.2", m, err)
	}
}

func TestIsARMMatchesAWSFile(t *testing.T) {
	for _, r := range raw(t, "aws") {
		want := AMD64
		if r["Arch"] == "arm64" {
			want = ARM64
		}
		if got := archName(skypilot.IsARM("aws", r["InstanceType"])); got != want {
			t.Fatalf("%s is %s by its name, %s by the file", r["InstanceType"], got, want)
		}
	}
}

func TestArchitectureOfOtherClouds(t *testing.T) {
	for _, c := range []struct {
		cloud, instanceType string
		want                Arch
	}{
		{"azure", "Standard_D16pls_v5", ARM64},
		{"azure", "Standard_B2ps_v2", ARM64},
		{"azure", "Standard_E96pds_v6", ARM64},
		{"azure", "Standard_NP10s", AMD64},
		{"azure", "Standard_ND128isr_NDR_GB200_v6", ARM64},
		{"azure", "Standard_PB6s", AMD64},
		{"azure", "Standard_DS13_v2_Promo", AMD64},
		{"azure", "Standard_E32-16s_v6", AMD64},
		{"gcp", "t2a-standard-8", ARM64},
		{"gcp", "c4a-highmem-16", ARM64},
		{"gcp", "t2d-standard-8", AMD64},
		{"lambda", "gpu_1x_gh200", ARM64},
		{"lambda", "gpu_1x_h100_pcie", AMD64},
		{"elsewhere", "m6g.large", AMD64},
	} {
		if got := archName(skypilot.IsARM(c.cloud, c.instanceType)); got != c.want {
			t.Errorf("%s %s is %s, want %s", c.cloud, c.instanceType, got, c.want)
		}
	}
}

func TestEMRSurchargeMatchesFile(t *testing.T) {
	c := everything(t)
	priced := 0
	for _, r := range raw(t, "aws") {
		id := OfferID{Cloud: "aws", Region: r["Region"], Zone: r["AvailabilityZone"], InstanceType: r["InstanceType"], Service: EMR, Market: OnDemand}
		m, err := c.Lookup(id.String())
		if r["EMRPrice"] == "" {
			if err == nil {
				t.Fatalf("%s is offered with EMR, which has no price for it", id)
			}
			continue
		}
		priced++
		if err != nil || m.SurchargeUSD != r.number("EMRPrice") || !sameUSD(m.USDPerHour, r.number("Price")+r.number("EMRPrice")) {
			t.Fatalf("%s: %+v, %v; the file says %s + %s", id, m, err, r["Price"], r["EMRPrice"])
		}
	}
	found, err := c.Find(Query{Service: EMR, Market: OnDemand, Accelerator: AnyAccelerator})
	if err != nil || len(found) != priced {
		t.Errorf("%d offers of EMR, the file prices %d (%v)", len(found), priced, err)
	}
}

func TestDataprocAddsACentPerVCPUHour(t *testing.T) {
	found, err := everything(t).Find(Query{Service: Dataproc, Accelerator: AnyAccelerator})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		m := &found[i]
		if m.Cloud != "gcp" || !sameUSD(m.SurchargeUSD, 0.01*m.VCPU) {
			t.Fatalf("%s: surcharge %g for %g vCPUs", m.ID(), m.SurchargeUSD, m.VCPU)
		}
		for _, not := range []string{"tpu-", "e2-micro", "f1-", "g1-", "t2a-"} {
			if strings.HasPrefix(m.InstanceType, not) {
				t.Fatalf("%s: Dataproc does not run on it", m.ID())
			}
		}
	}
}

func TestCarbonOfSameGrid(t *testing.T) {
	needData(t)
	content, err := os.ReadFile(filepath.Join(dataDir, "carbon", "gcp-2024.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != carbonCSV {
		t.Error("the embedded carbon data differs from the published data: run go generate ./pkg/catalog")
	}
	for place, want := range map[string]float64{
		"gcp:us-central1": 412.72, "gcp:me-central1": 366, "gcp:asia-southeast3": 0,
		"aws:us-east-1": 323.05, "aws:us-west-1": 0, "azure:eastus": 323.05, "azure:northeurope": 0, "lambda:us-east-1": 0,
	} {
		cloud, region, _ := strings.Cut(place, ":")
		if got := carbonGPerKWh(cloud, region); got != want {
			t.Errorf("%s: %g gCO2eq/kWh, want %g", place, got, want)
		}
	}
	regions := make(map[string]bool)
	for _, r := range everything(t).Regions("") {
		regions[r] = true
	}
	for cloud, same := range sameGrid {
		for region, google := range same {
			if googleCarbon()[google] == 0 {
				t.Errorf("%s:%s is mapped to the grid of %s, which has no carbon data", cloud, region, google)
			}
		}
	}
	if !regions["aws:us-east-1"] {
		t.Error("no aws:us-east-1 in Regions")
	}
}

package catalog

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestLookupFindsEveryOffer(t *testing.T) {
	c := snapshot(t)
	last := ""
	i := 0
	for o := range c.All() {
		id := o.ID()
		if id <= last {
			t.Fatalf("%s comes after %s", id, last)
		}
		last = id
		// To look up every offer would take seconds with the race detector.
		if i++; i%7 != 0 && !o.Attached {
			continue
		}
		parsed, err := ParseOfferID(id)
		if err != nil || parsed != o.OfferID() {
			t.Fatalf("ParseOfferID(%q) = %+v, %v", id, parsed, err)
		}
		m, err := c.Lookup(id)
		if err != nil || m.Offer != o || m.Market != AnyMarket {
			t.Fatalf("Lookup(%q) = %+v, %v; want %+v", id, m, err, o)
		}
	}
}

func TestParseOfferID(t *testing.T) {
	for s, want := range map[string]OfferID{
		"aws/us-east-1/use1-az1/p3.2xlarge": {Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p3.2xlarge"},
		"aws/us-east-1/use1-az1/p3.2xlarge/spot": {
			Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p3.2xlarge", Market: Spot,
		},
		"aws/us-east-1/use1-az1/m5.xlarge/emr/on-demand": {
			Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "m5.xlarge", Service: EMR, Market: OnDemand,
		},
		"azure/eastus/Standard_NC6s_v3/spot": {Cloud: "azure", Region: "eastus", InstanceType: "Standard_NC6s_v3", Market: Spot},
		"gcp/us-central1/us-central1-a/n1-standard-8+V100:2/dataproc/spot": {
			Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "n1-standard-8",
			Accelerator: "V100", AcceleratorCount: 2, Service: Dataproc, Market: Spot,
		},
	} {
		if got, err := ParseOfferID(s); err != nil || got != want {
			t.Errorf("ParseOfferID(%q) = %+v, %v", s, got, err)
		}
		if got := want.String(); got != s {
			t.Errorf("%+v is written %q, want %q", want, got, s)
		}
	}
	for _, s := range []string{
		"", "/", "aws", "aws/us-east-1", "aws/us-east-1/spot", "aws//use1-az1/p3.2xlarge", "a/b/c/d/e/f/g", "a/b/c/d/e",
		"a/b/c/+V100:1", "a/b/c/n1+V100", "a/b/c/n1+V100:", "a/b/c/n1+V100:0", "a/b/c/n1+V100:01", "a/b/c/n1+:1", "a/b/c/n1+V100:NaN",
		"a/b/c/d/spot/emr",
	} {
		if got, err := ParseOfferID(s); !errors.Is(err, ErrBadOfferID) {
			t.Errorf("ParseOfferID(%q) = %+v, %v; want ErrBadOfferID", s, got, err)
		}
	}
}

func TestLookupRejectsUnknownOffers(t *testing.T) {
	c := snapshot(t)
	for _, id := range []string{
		"aws/us-east-1/use1-az1/g5.3xlarge",
		"aws/us-east-1/use1-az9/g5.2xlarge",
		"aws/us-east-1/g5.2xlarge",
		"lambda/us-east-1/gpu_1x_gh200/spot",
		"aws/us-east-1/use1-az1/g5.2xlarge/dataproc",
		"gcp/us-central1/us-central1-a/n1-standard-8+V100:3",
		"gcp/us-central1/us-central1-a/n2-standard-8+V100:1",
	} {
		if m, err := c.Lookup(id); !errors.Is(err, ErrUnknownOffer) {
			t.Errorf("Lookup(%q) = %+v, %v; want ErrUnknownOffer", id, m, err)
		}
	}
	if _, err := c.Lookup("g5.2xlarge"); !errors.Is(err, ErrBadOfferID) {
		t.Errorf("%v, want ErrBadOfferID", err)
	}
}

func TestLookupFindsMatches(t *testing.T) {
	c := snapshot(t)
	for name, q := range typicalQueries {
		found, err := c.Find(q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range found {
			if m, err := c.Lookup(found[i].ID()); err != nil || m != found[i] {
				t.Fatalf("Lookup(%q) = %+v, %v; want %+v", found[i].ID(), m, err, found[i])
			}
		}
	}
}

func TestCloudsRegionsAndZones(t *testing.T) {
	c := snapshot(t)
	if got := c.Clouds(); !slices.Equal(got, []string{"aws", "azure", "gcp", "lambda"}) {
		t.Errorf("clouds %v", got)
	}
	if got := c.Regions("aws"); len(got) != 17 || !slices.Contains(got, "us-east-1") || !slices.IsSorted(got) {
		t.Errorf("AWS regions %v", got)
	}
	if got := c.Zones("gcp", "us-central1"); !slices.Equal(got, []string{"us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"}) {
		t.Errorf("zones of us-central1 %v", got)
	}
	if got := c.Zones("azure", "eastus"); got != nil {
		t.Errorf("Azure sells by region, not in %v", got)
	}
	infos := c.Accelerators()
	i := slices.IndexFunc(infos, func(a AcceleratorInfo) bool { return a.Name == "V100" })
	if i < 0 || !slices.Equal(infos[i].Counts, []float64{1, 2, 4, 8}) || !slices.Equal(infos[i].Clouds, []string{"azure", "gcp", "lambda"}) {
		t.Errorf("accelerators %+v", infos)
	}
}

func TestOfferJSON(t *testing.T) {
	m, err := snapshot(t).Lookup("aws/us-east-1/use1-az1/g4dn.xlarge/spot")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"cloud":"aws"`, `"zone":"use1-az1"`, `"instanceType":"g4dn.xlarge"`, `"accelerator":"T4"`, `"acceleratorCount":1`,
		`"arch":"amd64"`, `"market":"spot"`, `"usdPerHour":`, `"carbonGPerKWh":323.05`, `"interruption":"5-10%"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	var back Match
	if err := json.Unmarshal(text, &back); err != nil || back != m {
		t.Errorf("%+v, %v; want %+v", back, err, m)
	}
}

func TestPreemptionRateMatchesBand(t *testing.T) {
	for _, b := range []struct {
		band  InterruptionBand
		share float64
	}{{InterruptionBelow5, 0.025}, {Interruption5To10, 0.075}, {Interruption10To15, 0.125}, {Interruption15To20, 0.175}, {InterruptionAbove20, 0.25}} {
		rate, known := b.band.PreemptionsPerHour()
		if got := 1 - math.Exp(-rate*730); !known || math.Abs(got-b.share) > 1e-12 {
			t.Errorf("%s: a month at %g an hour interrupts %g, want %g", b.band, rate, got, b.share)
		}
		if parsed, err := parseInterruptionBand(b.band.String()); err != nil || parsed != b.band {
			t.Errorf("%s parses as %v, %v", b.band, parsed, err)
		}
	}
	if rate, known := UnknownInterruption.PreemptionsPerHour(); known || rate != 0 {
		t.Errorf("unknown is %g, %v", rate, known)
	}
	if _, known := InterruptionBand(77).PreemptionsPerHour(); known || InterruptionBand(77).String() != "" {
		t.Error("an invalid band has a rate or a name")
	}
	if _, err := parseInterruptionBand("30%"); err == nil {
		t.Error("30% parses as a band")
	}
}

func TestParseMarketAcceptsEverySpelling(t *testing.T) {
	for s, want := range map[string]Market{"": AnyMarket, "auto": AnyMarket, "any": AnyMarket, "Spot": Spot, "on-demand": OnDemand, "ondemand": OnDemand} {
		if got, err := ParseMarket(s); err != nil || got != want {
			t.Errorf("ParseMarket(%q) = %v, %v", s, got, err)
		}
	}
	if _, err := ParseMarket("futures"); err == nil {
		t.Error("futures parses as a market")
	}
}

func FuzzParseOfferID(f *testing.F) {
	f.Add("aws/us-east-1/use1-az1/p3.2xlarge/spot")
	f.Add("gcp/us-central1/us-central1-a/n1-standard-8+V100:2/dataproc/spot")
	f.Add("azure/eastus/Standard_NC6s_v3")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseOfferID(s)
		if err == nil && id.String() != s {
			t.Fatalf("%q is written %q", s, id)
		}
	})
}

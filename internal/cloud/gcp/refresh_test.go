package gcp_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	billing "google.golang.org/api/cloudbilling/v1"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// line is a line of the price list in the Cloud Billing API's format. Unused fields are omitted.
const line = `{"name":"services/6F81-5844-456A/skus/%[1]s","skuId":"%[1]s","description":%[2]q,
"category":{"serviceDisplayName":"Compute Engine","resourceFamily":"Compute","resourceGroup":"CPU","usageType":%[3]q},
"serviceRegions":["us-central1"],"pricingInfo":[{"summary":"","pricingExpression":{"usageUnit":%[4]q,"displayQuantity":1,
"tieredRates":[{"startUsageAmount":0,"unitPrice":{"currencyCode":"USD","units":"%[5]d","nanos":%[6]d}}]},
"currencyConversionRate":1,"effectiveTime":"2026-11-01T00:00:00Z"}]}`

func sku(description, market, unit string, usd float64) string {
	whole, part := math.Modf(usd)
	return fmt.Sprintf(line, "0000-"+strings.ToUpper(description[:2]), description, market, unit, int(whole), int(math.Round(part*1e9)))
}

// list returns a page of the price list.
func list(skus ...string) json.RawMessage {
	return json.RawMessage(`{"skus":[` + strings.Join(skus, ",") + `]}`)
}

// prices returns a price list for e2 and n1 in Iowa. Its vCPUs cost 10% more than in the catalogue.
func prices() []json.RawMessage {
	return []json.RawMessage{
		list(sku("E2 Instance Core running in Americas", "OnDemand", "h", 0.024),
			sku("E2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 0.0029),
			sku("Spot Preemptible E2 Instance Core running in Americas", "Preemptible", "h", 0.009),
			sku("Spot Preemptible E2 Instance Ram running in Americas", "Preemptible", "GiBy.h", 0.0011),
			sku("Commitment v1: E2 Cpu in Americas for 1 Year", "Commit1Yr", "h", 0.001),
			sku("Network Internet Egress", "OnDemand", "GiBy", 0.1)),
		list(sku("N1 Predefined Instance Core running in Americas", "OnDemand", "h", 0.0347),
			sku("N1 Predefined Instance Ram running in Americas", "OnDemand", "GiBy.h", 0.0046),
			sku("Nvidia Tesla V100 GPU running in Americas", "OnDemand", "h", 2.6),
			sku("G2 Instance Core running in Americas", "OnDemand", "h", 9), // an implausible price
			sku("G2 Instance Ram running in Americas", "OnDemand", "GiBy.h", 9),
			sku("Nvidia L4 GPU running in Americas", "OnDemand", "h", 9)),
	}
}

type refreshWorld struct {
	*testing.T
	gce  *gce.Cloud
	url  string
	base *catalog.Catalog
	r    *gcp.Refresher
}

func refreshNewWorld(t *testing.T, skus []json.RawMessage) *refreshWorld {
	t.Helper()
	emulator, err := gce.New(gce.Config{Skus: skus})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(emulator)
	t.Cleanup(func() {
		server.Close()
		for _, f := range emulator.Faults() {
			t.Errorf("not as in Google's documentation: %s", f)
		}
	})
	base, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	w := &refreshWorld{T: t, gce: emulator, base: base, url: server.URL}
	w.r = &gcp.Refresher{Cloud: w.driver(nil)}
	return w
}

func (w *refreshWorld) driver(agents driver.Agents) *gcp.Cloud {
	return gcp.New(gcp.Config{
		Deployment: "test", Project: "demo", Regions: []string{"us-central1"}, Endpoint: w.url, Agents: agents,
		Client: []option.ClientOption{option.WithHTTPClient(&http.Client{})},
	})
}

func (w *refreshWorld) refresh() (*catalog.Catalog, gcp.Result) {
	w.Helper()
	next, res, err := w.r.Refresh(w.Context(), w.base, w.base)
	if err != nil {
		w.Fatal(err)
	}
	return next, res
}

func lookup(t *testing.T, c *catalog.Catalog, id string) catalog.Offer {
	t.Helper()
	m, err := c.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	return m.Offer
}

func TestRefreshSumsPartPrices(t *testing.T) {
	w := refreshNewWorld(t, prices())
	next, res := w.refresh()
	e2 := lookup(t, next, "gcp/us-central1/us-central1-a/e2-standard-2")
	if want := 2*0.024 + 8*0.0029; math.Abs(e2.OnDemandUSD-want) > 1e-6 || math.Abs(e2.SpotUSD-(2*0.009+8*0.0011)) > 1e-6 || !e2.HasSpot {
		t.Errorf("%+v, want %g", e2, want)
	}
	v100 := lookup(t, next, "gcp/us-central1/us-central1-a/n1-standard-8+V100:1")
	if want := 8*0.0347 + 30*0.0046 + 2.6; math.Abs(v100.OnDemandUSD-want) > 1e-6 {
		t.Errorf("%+v, want %g", v100, want)
	}
	g2 := "gcp/us-central1/us-central1-a/g2-standard-8"
	if was, is := lookup(t, w.base, g2), lookup(t, next, g2); is.OnDemandUSD != was.OnDemandUSD || res.Doubted == 0 {
		t.Errorf("a price of %g instead of %g was believed; %d doubted", is.OnDemandUSD, was.OnDemandUSD, res.Doubted)
	}
	if !slices.Equal(res.Regions, []string{"us-central1"}) || len(res.Kept) != 0 || res.OnDemand == 0 || res.Spot == 0 {
		t.Errorf("%+v", res)
	}
	for _, other := range []string{"gcp/us-west1/us-west1-a/e2-standard-2", "gcp/us-central1/us-central1-a/tpu-v3-8"} {
		if was, is := lookup(t, w.base, other), lookup(t, next, other); was != is {
			t.Errorf("%s was %+v, is %+v", other, was, is)
		}
	}
}

func TestRefreshDropsUnsoldTypes(t *testing.T) {
	w := refreshNewWorld(t, prices())
	w.gce.Unsell("us-central1-a", "n1-standard-8")
	next, res := w.refresh()
	for _, id := range []string{"gcp/us-central1/us-central1-a/n1-standard-8", "gcp/us-central1/us-central1-a/n1-standard-8+V100:1"} {
		if o, err := next.Lookup(id); err == nil {
			t.Errorf("%+v still exists", o)
		}
	}
	if res.Gone < 2 {
		t.Errorf("%+v", res)
	}
	// When a type is sold again, its data come from the shipped catalogue.
	again := refreshNewWorld(t, prices())
	back, _, err := again.r.Refresh(t.Context(), again.base, next)
	if err != nil {
		t.Fatal(err)
	}
	lookup(t, back, "gcp/us-central1/us-central1-a/n1-standard-8+V100:1")
}

// A source is down or unreadable. Its old data must stay, and Kept must list it.
func TestRefreshKeepsDataOfFailedSources(t *testing.T) {
	const id = "gcp/us-central1/us-central1-a/e2-standard-2"
	for name, c := range map[string]struct {
		spoil func(*refreshWorld)
		skus  []json.RawMessage
		kept  string
	}{
		"prices are off": {func(w *refreshWorld) { w.gce.Disable("cloudbilling.googleapis.com", true) }, prices(),
			"prices: gcp: auth (SERVICE_DISABLED)"},
		"prices are no JSON": {func(*refreshWorld) {}, []json.RawMessage{json.RawMessage("<html>")}, "prices: "},
		"prices are of nothing": {func(*refreshWorld) {}, []json.RawMessage{
			json.RawMessage(`{"skus":[{"description":"E2 Instance Core running in Iowa","category":{"resourceFamily":"Compute","usageType":"OnDemand"}},{}]}`),
		}, ""},
		"quotas": {func(w *refreshWorld) {
			w.gce.Refuse("compute.regions.list", gce.Fault{Code: 503, Reason: "backendError", Message: "oops"})
		}, nil, "quotas: "},
		"attached": {func(w *refreshWorld) {
			w.gce.Refuse("compute.acceleratorTypes.aggregatedList", gce.Fault{Code: 503, Reason: "backendError", Message: "oops"})
		}, nil, "attachable accelerators: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := refreshNewWorld(t, c.skus)
			c.spoil(w)
			next, res := w.refresh()
			if was, is := lookup(t, w.base, id), lookup(t, next, id); was != is {
				t.Errorf("was %+v, is %+v", was, is)
			}
			lookup(t, next, "gcp/us-central1/us-central1-a/n1-standard-8+V100:1")
			if c.kept == "" && len(res.Kept) > 0 || c.kept != "" && (len(res.Kept) != 1 || !strings.HasPrefix(res.Kept[0], c.kept)) {
				t.Errorf("kept %q", res.Kept)
			}
		})
	}
	w := refreshNewWorld(t, prices())
	w.gce.Disable("compute.googleapis.com", true)
	if next, _, err := w.r.Refresh(t.Context(), w.base, w.base); err == nil || next != nil {
		t.Error("a refresh without machine types succeeded")
	}
}

func TestRefreshDropsOffersBeyondQuota(t *testing.T) {
	w := refreshNewWorld(t, nil)
	w.gce.SetQuota("us-central1", "CPUS", 4)
	w.gce.SetQuota("us-central1", "PREEMPTIBLE_CPUS", 8)
	w.gce.SetQuota("", "GPUS_ALL_REGIONS", 0)
	next, res := w.refresh()
	if _, err := next.Lookup("gcp/us-central1/us-central1-a/n1-standard-16"); err == nil || res.Dropped == 0 {
		t.Errorf("an offer of 16 processors with a quota of 4; %+v", res)
	}
	if _, err := next.Lookup("gcp/us-central1/us-central1-a/n1-standard-8+V100:1"); err == nil {
		t.Error("a GPU offer without a GPU quota")
	}
	lookup(t, next, "gcp/us-central1/us-central1-a/e2-standard-4")
	if o := lookup(t, next, "gcp/us-central1/us-central1-a/n1-standard-8"); !o.HasSpot {
		t.Errorf("the spot side fits into the quota: %+v", o)
	}
}

func FuzzParseSku(f *testing.F) {
	for _, page := range prices() {
		var out billing.ListSkusResponse
		if err := json.Unmarshal(page, &out); err != nil {
			f.Fatal(err)
		}
		for _, s := range out.Skus {
			text, _ := json.Marshal(s)
			f.Add(text)
		}
	}
	f.Add([]byte(`{"category":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s billing.Sku
		if json.Unmarshal(text, &s) != nil {
			return
		}
		p, ok := gcp.ParseSku(&s)
		if ok && (!(p.USD > 0 && p.USD < 1000) || p.Family == "" || len(p.Regions) == 0 || p.Kind != "core" && p.Kind != "ram" && p.Kind != "gpu") {
			t.Errorf("%+v", p)
		}
	})
}

// The quotas of newer families must decide which offers fit. The quotas of H100 and newer GPUs, and of the vCPUs of
// C4, N4 and other newer families, are not in a region's list: they are CPUS_PER_VM_FAMILY and GPUS_PER_GPU_FAMILY,
// with one dimension for each family (Compute Engine API v1, enumeration Quota.metric, has neither C4_CPUS nor
// NVIDIA_H100_GPUS, but PREEMPTIBLE_NVIDIA_H100_GPUS). A quota of 0 for preemptible GPUs means none ("Quota limit
// 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0", github.com/marin-community/marin pull
// request 1612). If the quota of preemptible vCPUs is 0, the common quota counts (Google, as quoted in
// github.com/hail-is/hail pull request 10588).
func TestRefreshJudgesFamiliesByTheirOwnQuotas(t *testing.T) {
	w := refreshNewWorld(t, nil)
	w.gce.SetQuota("us-central1", "CPUS", 24)
	w.gce.SetQuota("us-central1", "PREEMPTIBLE_CPUS", 0)
	w.gce.SetQuota("us-central1", "PREEMPTIBLE_NVIDIA_H100_GPUS", 0)
	w.gce.SetQuota("us-central1", "PREEMPTIBLE_NVIDIA_L4_GPUS", 0)
	w.gce.SetQuota("us-central1", "NVIDIA_L4_GPUS", 1)
	w.gce.Sell("c4-standard-48", "n1-standard-64", "a3-highgpu-1g", "a3-highgpu-8g")
	next, _ := w.refresh()
	for name, want := range map[string]struct{ there, spot bool }{
		"c4-standard-48": {true, true}, "n1-standard-64": {}, "n1-standard-16": {true, true},
		"a3-highgpu-1g": {}, "a3-highgpu-8g": {true, false}, "g2-standard-8": {true, false},
	} {
		found := false
		for o := range next.All() {
			if o.Cloud != "gcp" || o.Zone != "us-central1-a" || o.InstanceType != name || o.Attached {
				continue
			}
			if found = true; o.HasSpot != want.spot {
				t.Errorf("%s has spot: %t", name, o.HasSpot)
			}
		}
		if found != want.there {
			t.Errorf("%s is offered: %t, want %t", name, found, want.there)
		}
	}
}

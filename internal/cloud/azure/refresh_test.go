package azure_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// memory keeps a catalogue snapshot in memory.
type memory struct{ data []byte }

func (m *memory) Get(context.Context, string) ([]byte, string, error) {
	if m.data == nil {
		return nil, "", fs.ErrNotExist
	}
	return m.data, fmt.Sprint(len(m.data)), nil
}

func (m *memory) Put(_ context.Context, data []byte) error {
	m.data = data
	return nil
}

// base returns the part of the catalogue that these tests need.
var base = sync.OnceValues(func() (*catalog.Catalog, error) {
	all, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	return all.Replace(func(o *catalog.Offer) bool {
		azures := o.Cloud == "azure" && slices.Contains([]string{"eastus", "westeurope", "westus2"}, o.Region)
		return !azures && o.Zone != "use1-az1"
	}, nil)
})

func newRefresher(t *testing.T, a arm.Config) (*azure.Refresher, *arm.Server, *memory) {
	t.Helper()
	server := arm.New(a)
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	c, err := azure.New(azure.Config{Deployment: "tw", Subscription: arm.DefaultSubscription, ResourceGroup: "tradewind",
		Regions: []string{"eastus", "westeurope"}, Credential: arm.Credential{}, Options: arm.Options(web.URL)})
	if err != nil {
		t.Fatal(err)
	}
	known, err := base()
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{}
	return &azure.Refresher{Cloud: c, Base: known, Prices: web.URL + "/api/retail/prices", Snapshots: m,
		Now: time.Now}, server, m
}

func refreshed(t *testing.T, r *azure.Refresher, m *memory) (*catalog.Catalog, azure.Result) {
	t.Helper()
	res, err := r.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.ReadSnapshot(m.data)
	if err != nil {
		t.Fatal(err)
	}
	return c, res
}

// Azure's list of SKUs decides the architecture and the resources of a machine, and confidential types must not be
// offered. Source: Resource SKUs API, capabilities CpuArchitectureType, vCPUs, vCPUsAvailable ("Constrained vCPU
// capable VM sizes") and ConfidentialComputingType (github.com/Azure/azure-cli issue 25320).
func TestRefreshBelievesCapabilities(t *testing.T) {
	sizes := append(arm.DefaultSizes(),
		arm.Size{Name: "Standard_E8-4s_v5", Family: "standardESv5Family", VCPU: 8, Available: 4, MemoryGiB: 64, USD: 0.504, SpotUSD: 0.1},
		arm.Size{Name: "Standard_E8-2s_v9", Family: "standardESv9Family", VCPU: 8, Available: 2, MemoryGiB: 64, USD: 0.504, SpotUSD: 0.1},
		arm.Size{Name: "Standard_D4x_v9", Family: "x", VCPU: 4, MemoryGiB: 16, Arm: true, USD: 0.1},
		arm.Size{Name: "Standard_DC2as_v5", Family: "c", VCPU: 2, MemoryGiB: 8, USD: 0.1, SpotUSD: 0.01, Confidential: "SNP"},
		arm.Size{Name: "Standard_Q2s_v9", Family: "c", VCPU: 2, MemoryGiB: 8, USD: 0.1, SpotUSD: 0.01, Confidential: "TDX"},
		arm.Size{Name: "Standard_NV36ads_A10_v5", Family: "g", VCPU: 36, MemoryGiB: 440, GPUs: 1, USD: 3.2},
	)
	r, _, m := newRefresher(t, arm.Config{Sizes: sizes})
	c, _ := refreshed(t, r, m)
	for name, vcpu := range map[string]float64{"Standard_E8-4s_v5": 4, "Standard_E8-2s_v9": 2, "Standard_D4x_v9": 4} {
		if o, err := c.Lookup("azure/westeurope/" + name); err != nil || o.VCPU != vcpu || (o.Arch == catalog.ARM64) != (name == "Standard_D4x_v9") {
			t.Errorf("%s: %+v, %v", name, o.Offer, err)
		}
	}
	for _, name := range []string{"Standard_DC2as_v5", "Standard_Q2s_v9", "Standard_NV36ads_A10_v5"} {
		if o, err := c.Lookup("azure/westeurope/" + name); err == nil {
			t.Errorf("%s cannot boot, but is sold: %+v", name, o.Offer)
		}
	}
}

func TestRefreshReadsTypesAndPrices(t *testing.T) {
	sizes := append(arm.DefaultSizes(),
		arm.Size{Name: "Standard_D2ps_v9", Family: "new", VCPU: 2, MemoryGiB: 8, Arm: true, USD: 0.0711, SpotUSD: 0.0142},
		arm.Size{Name: "Standard_NC48ads_H100_v9", Family: "newGPU", VCPU: 48, MemoryGiB: 320, GPUs: 2, USD: 7.5, SpotUSD: 3},
		arm.Size{Name: "Standard_NX48_v9", Family: "newGPU", VCPU: 48, MemoryGiB: 320, GPUs: 2, USD: 7.5})
	r, _, m := newRefresher(t, arm.Config{Sizes: sizes})
	c, res := refreshed(t, r, m)
	if !slices.Equal(res.Regions, []string{"eastus", "westeurope"}) || res.Offers != 12 || res.OnDemand != 16 || len(res.Kept) != 0 || res.New == 0 || res.Gone == 0 {
		t.Errorf("%+v", res)
	}
	for id, want := range map[string]float64{
		"azure/eastus/Standard_D2s_v5/on-demand": 0.096, "azure/westeurope/Standard_D2s_v5/spot": 0.0182,
		"azure/eastus/Standard_D2ps_v9/on-demand": 0.0711, "azure/eastus/Standard_NC48ads_H100_v9/spot": 3,
		"azure/eastus/Standard_NC4as_T4_v3/on-demand": 0.526,
	} {
		found, err := c.Lookup(id)
		if err != nil || found.USDPerHour != want {
			t.Errorf("%s: %v, %v", id, found.USDPerHour, err)
		}
	}
	if o, err := c.Lookup("azure/eastus/Standard_D2ps_v9"); err != nil || o.Arch != catalog.ARM64 || o.VCPU != 2 || o.MemoryGiB != 8 {
		t.Errorf("a type that is new in the catalogue: %+v, %v", o.Offer, err)
	}
	if o, err := c.Lookup("azure/eastus/Standard_NC48ads_H100_v9"); err != nil || o.Accelerator != "H100" || o.AcceleratorCount != 2 {
		t.Errorf("the GPU: %+v, %v", o.Offer, err)
	}
	for _, id := range []string{"azure/eastus/Standard_ND96isr_H100_v5", "azure/eastus/Standard_NX48_v9", "azure/eastus/Standard_A1_v2/spot"} {
		if o, err := c.Lookup(id); err == nil {
			t.Errorf("not sold to this subscription, or not on this market: %+v", o.Offer)
		}
	}
	if _, err := c.Lookup("azure/westus2/Standard_D2s_v5/on-demand"); err != nil {
		t.Errorf("another region changed: %v", err)
	}
	if _, err := c.Lookup("aws/us-east-1/use1-az1/m5.large"); err != nil {
		t.Errorf("another cloud changed: %v", err)
	}
	if _, again := refreshed(t, r, m); again.New != 0 || again.Gone != 0 || again.Changed != 0 {
		t.Errorf("a refresh without changes: %+v", again)
	}
}

func TestRefreshKeepsPricesIfPriceListFails(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"down":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"throttled":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"no JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"nothing":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"Items":[]}`)) },
		"another answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"error":{}}`)) },
		"another host": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Items":[],"NextPageLink":"http://elsewhere.example/x"}`))
		},
		"without an end": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"Items":[],"NextPageLink":"http://%s/"}`, r.Host)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, m := newRefresher(t, arm.Config{})
			before, _ := refreshed(t, r, m)
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			r.Prices = server.URL
			after, res := refreshed(t, r, m)
			if len(res.Kept) != 2 || !strings.Contains(res.Kept[0], "prices of eastus") || res.Changed != 0 || res.Gone != 0 {
				t.Errorf("%+v", res)
			}
			const id = "azure/eastus/Standard_D2s_v5/spot"
			was, err1 := before.Lookup(id)
			is, err2 := after.Lookup(id)
			if err1 != nil || err2 != nil || was.USDPerHour != is.USDPerHour {
				t.Errorf("%v, %v: %v and %v", was.USDPerHour, is.USDPerHour, err1, err2)
			}
		})
	}
}

func TestRefreshKeepsOffersOfFailedRegion(t *testing.T) {
	r, server, m := newRefresher(t, arm.Config{})
	server.Make(arm.Trouble{Kind: "GET skus", Times: 2, Fault: &arm.Fault{Status: 500, Code: "InternalServerError", Message: "later"}})
	c, res := refreshed(t, r, m)
	if !slices.Equal(res.Regions, []string{"westeurope"}) || len(res.Kept) != 1 || !strings.Contains(res.Kept[0], "later") {
		t.Errorf("%+v", res)
	}
	if _, err := c.Lookup("azure/eastus/Standard_E8s_v5"); err != nil {
		t.Error(err)
	}
	m.data = nil
	server.Make(arm.Trouble{Kind: "GET skus", Times: -1, Fault: &arm.Fault{Status: 403, Code: "AuthorizationFailed", Message: "no"}})
	if _, err := r.Refresh(t.Context()); err == nil || m.data != nil {
		t.Errorf("a refresh that read nothing succeeded, or wrote a snapshot: %v", err)
	}
}

func TestRefreshDropsOffersBeyondQuota(t *testing.T) {
	r, server, m := newRefresher(t, arm.Config{Limits: map[string]int{"lowPriorityCores": 3, "cores": 100, "Standard NCASv3_T4 Family": 0}})
	c, res := refreshed(t, r, m)
	if _, err := c.Lookup("azure/eastus/Standard_NC4as_T4_v3"); err == nil || res.Dropped == 0 {
		t.Errorf("an offer without a quota: %+v", res)
	}
	if _, err := c.Lookup("azure/eastus/Standard_D2s_v5/spot"); err != nil {
		t.Error(err)
	}
	server.Limit("Standard NCASv3_T4 Family", 8)
	if c, _ = refreshed(t, r, m); true {
		if _, err := c.Lookup("azure/eastus/Standard_NC4as_T4_v3/on-demand"); err != nil {
			t.Errorf("the offer does not come back: %v", err)
		}
	}
}

const line = `{"currencyCode":"USD","tierMinimumUnits":0.0,"retailPrice":0.096,"unitPrice":0.096,"armRegionName":"eastus","location":"US East",
"effectiveStartDate":"2020-08-01T00:00:00Z","meterId":"x","meterName":"D2s v5","productId":"y","skuId":"z","productName":"Virtual Machines DSv5 Series",
"skuName":"D2s v5","serviceName":"Virtual Machines","serviceId":"s","serviceFamily":"Compute","unitOfMeasure":"1 Hour","type":"Consumption",
"isPrimaryMeterRegion":true,"armSkuName":"Standard_D2s_v5"}`

func TestDecodePricesSkipsOtherLines(t *testing.T) {
	page := func(l string) []byte {
		return []byte(`{"BillingCurrency":"USD","Items":[` + l + `],"NextPageLink":"http://x/y","Count":1}`)
	}
	prices, next, err := azure.DecodePrices(page(line))
	if want := (azure.Price{InstanceType: "Standard_D2s_v5", USD: 0.096, From: "2020-08-01T00:00:00Z"}); err != nil ||
		next != "http://x/y" || len(prices) != 1 || prices[0] != want {
		t.Errorf("%+v %q %v", prices, next, err)
	}
	for _, change := range [][2]string{
		{`DSv5 Series"`, `DSv5 Series Windows"`}, {`"skuName":"D2s v5"`, `"skuName":"D2s v5 Low Priority"`}, {`"1 Hour"`, `"1/Month"`},
		{`"Consumption"`, `"Reservation"`}, {`"USD"`, `"EUR"`}, {`Price":0.096`, `Price":0`}, {`Price":0.096`, `Price":1e300`}, {`Standard_D2s`, `D2s`},
		{`"tierMinimumUnits":0.0`, `"tierMinimumUnits":5`}, {`DSv5 Series"`, `DSv5 Series Cloud Services"`},
		{`"type"`, `"effectiveEndDate":"2021-01-01T00:00:00Z","type"`},
	} {
		if prices, _, err := azure.DecodePrices(page(strings.Replace(line, change[0], change[1], 1))); err != nil ||
			len(prices) != 0 {
			t.Errorf("%v: %+v %v", change, prices, err)
		}
	}
	if prices, _, _ := azure.DecodePrices(page(strings.Replace(line, `"skuName":"D2s v5"`, `"skuName":"D2s v5 Spot"`,
		1))); len(prices) != 1 || !prices[0].Spot {
		t.Errorf("%+v", prices)
	}
}

func FuzzDecodePrices(f *testing.F) {
	f.Add([]byte(`{"Items":[` + line + `],"NextPageLink":null}`))
	f.Add([]byte(`{"Items":[{"retailPrice":1e999}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		prices, _, err := azure.DecodePrices(b)
		for _, p := range prices {
			if err != nil || p.InstanceType == "" || !(p.USD > 0) {
				t.Errorf("%+v %v", p, err)
			}
		}
	})
}

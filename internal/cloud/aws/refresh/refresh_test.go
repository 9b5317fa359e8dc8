package refresh_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// entry is a price list entry in the Pricing API's format. Unused fields are omitted.
const entry = `{"product":{"productFamily":"Compute Instance","attributes":{"instanceType":%q,"regionCode":"us-east-1","operatingSystem":"Linux"},"sku":"X"},
"serviceCode":"AmazonEC2","terms":{"OnDemand":{"X.JRTCKXETXF":{"priceDimensions":{"X.JRTCKXETXF.6YS6EN2CT7":{"unit":"Hrs","endRange":"Inf",
"description":"per hour","appliesTo":[],"beginRange":"0","pricePerUnit":{"USD":%q}}},"sku":"X","effectiveDate":"2026-11-01T00:00:00Z"}}},"version":"1"}`

// listings serves the two services that the emulator lacks, in their formats.
type listings struct {
	prices map[string]string
	emr    map[string]string // surcharges of EMR
	quotas map[string]float64
}

func (l listings) serve(w http.ResponseWriter, r *http.Request, body []byte) bool {
	var answer any
	if strings.Contains(string(body), `"ElasticMapReduce"`) {
		l.prices = l.emr
	}
	switch target := r.Header.Get("X-Amz-Target"); {
	case strings.HasSuffix(target, ".GetProducts") && l.prices != nil:
		var list []string
		for name, usd := range l.prices {
			list = append(list, fmt.Sprintf(entry, name, usd))
		}
		answer = map[string]any{"FormatVersion": "aws_v1", "PriceList": list}
	case strings.HasSuffix(target, ".ListServiceQuotas") && l.quotas != nil:
		var list []map[string]any
		for code, v := range l.quotas {
			list = append(list, map[string]any{"QuotaCode": code, "Value": v, "ServiceCode": "ec2"})
		}
		answer = map[string]any{"Quotas": list}
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(answer)
	return true
}

func newRefresher(t *testing.T, l listings) (*refresh.Refresher, refresh.Bucket) {
	t.Helper()
	endpoint := emulator.Moto(t)
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	back := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if !l.serve(w, r, b) {
			back.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	sdk := emulator.Config(server.URL)
	sdk.RetryMaxAttempts = 1
	bucket := refresh.Bucket{
		Client: s3.NewFromConfig(sdk, func(o *s3.Options) { o.UsePathStyle = true }), Name: strings.ToLower(fmt.Sprintf("work-%d", time.Now().UnixNano())),
	}
	if _, err := bucket.Client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket.Name}); err != nil {
		t.Fatal(err)
	}
	return &refresh.Refresher{Cloud: aws.New(sdk, aws.Config{Deployment: "tw"}), Snapshots: bucket, Now: time.Now}, bucket
}

func refreshed(t *testing.T, r *refresh.Refresher, b refresh.Bucket) (*catalog.Catalog, refresh.Result) {
	t.Helper()
	res, err := r.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := refresh.Load(t.Context(), b, "")
	if err != nil {
		t.Fatal(err)
	}
	return c, res
}

func TestRefreshKeepsPricesIfPriceListFails(t *testing.T) {
	r, b := newRefresher(t, listings{})
	if _, _, err := refresh.Load(t.Context(), b, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first refresh: %v", err)
	}
	c, res := refreshed(t, r, b)
	t.Logf("%+v", res)
	old, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	const id = "aws/us-east-1/use1-az1/m5.large"
	was, err1 := old.Lookup(id)
	is, err2 := c.Lookup(id)
	if err := errors.Join(err1, err2); err != nil || is.OnDemandUSD != was.OnDemandUSD || is.Interruption != was.Interruption {
		t.Errorf("was %+v, is %+v, %v", was.Offer, is.Offer, err)
	}
	if is.SpotUSD != 0.00001 || res.Spot == 0 || res.OnDemand != 0 { // the emulator's price
		t.Errorf("spot price %v; %+v", is.SpotUSD, res)
	}
	if _, err := c.Lookup("aws/us-east-1/use1-az1/p3.2xlarge"); err == nil {
		t.Error("the emulator does not sell p3, but the catalogue has it")
	}
	if a, err := c.Lookup("aws/eu-west-1/euw1-az1/m5.large"); err != nil || a.SpotUSD == 0.00001 {
		t.Errorf("another region changed: %+v, %v", a, err)
	}
	if _, err := c.Lookup("gcp/us-central1/us-central1-a/n1-standard-8/on-demand"); err != nil {
		t.Error(err)
	}
}

func TestRefreshReadsPriceList(t *testing.T) {
	r, b := newRefresher(t, listings{prices: map[string]string{"m5.large": "0.1234", "c8gd.large": "0.0999", "odd": "-1"}})
	c, res := refreshed(t, r, b)
	t.Logf("%+v", res)
	if m, err := c.Lookup("aws/us-east-1/use1-az6/m5.large/on-demand"); err != nil || m.USDPerHour != 0.1234 {
		t.Errorf("%+v, %v", m.Offer, err)
	}
	if m, err := c.Lookup("aws/us-east-1/use1-az1/c8gd.large/on-demand"); err != nil || m.USDPerHour != 0.0999 || m.Arch != catalog.ARM64 || m.VCPU != 2 {
		t.Errorf("a type that is new in the catalogue: %+v, %v", m.Offer, err)
	}
	_, tag, err := refresh.Load(t.Context(), b, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, same, err := refresh.Load(t.Context(), b, tag); again != nil || same != tag || err != nil {
		t.Errorf("an unchanged snapshot was read again: %v %q %v", again != nil, same, err)
	}
}

// EMR's surcharge comes from the price list. A type that the list lacks must keep its old surcharge.
func TestRefreshReadsSurchargesOfEMR(t *testing.T) {
	old, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	const listed, unlisted = "aws/us-east-1/use1-az1/m5.large/emr", "aws/us-east-1/use1-az1/m5.xlarge/emr"
	was, err := old.Lookup(unlisted)
	if err != nil {
		t.Fatal(err)
	}
	r, b := newRefresher(t, listings{
		prices: map[string]string{"m5.large": "0.1234", "c8gd.large": "0.0999"},
		emr:    map[string]string{"m5.large": "0.0333", "c8gd.large": "0.0222"},
	})
	c, _ := refreshed(t, r, b)
	if m, err := c.Lookup(listed); err != nil || m.SurchargeUSD != 0.0333 || m.OnDemandUSD != 0.1234 {
		t.Errorf("%+v, %v", m.Offer, err)
	}
	if m, err := c.Lookup("aws/us-east-1/use1-az1/c8gd.large/emr"); err != nil || m.SurchargeUSD != 0.0222 {
		t.Errorf("a type without a surcharge before: %+v, %v", m.Offer, err)
	}
	if m, err := c.Lookup(unlisted); err != nil || m.SurchargeUSD != was.SurchargeUSD {
		t.Errorf("%+v, %v, want %v", m.Offer, err, was.SurchargeUSD)
	}
}

func TestRefreshDropsOffersBeyondQuota(t *testing.T) {
	r, b := newRefresher(t, listings{quotas: map[string]float64{"L-DB2E81BA": 0, "L-3819A6DF": 0, "L-34B43A08": 4, "L-1216C47A": 1000}})
	c, res := refreshed(t, r, b)
	if _, err := c.Lookup("aws/us-east-1/use1-az1/g4dn.xlarge"); err == nil || res.Dropped == 0 {
		t.Errorf("a GPU offer without a GPU quota: %+v", res)
	}
	small, err := c.Lookup("aws/us-east-1/use1-az1/m5.xlarge")
	if err != nil || !small.HasSpot {
		t.Errorf("%+v, %v", small.Offer, err)
	}
	large, err := c.Lookup("aws/us-east-1/use1-az1/m5.2xlarge")
	if err != nil || large.HasSpot {
		t.Errorf("8 spot vCPUs with a quota of 4: %+v, %v", large.Offer, err)
	}
	again, bucket := newRefresher(t, listings{}) // the quotas are unknown now
	data, _, err := b.Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Put(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	c, _ = refreshed(t, again, bucket)
	if _, err := c.Lookup("aws/us-east-1/use1-az1/g4dn.xlarge/spot"); err != nil {
		t.Errorf("the offer does not come back: %v", err)
	}
}

func TestFailedRefreshWritesNothing(t *testing.T) {
	r, b := newRefresher(t, listings{})
	sdk := emulator.Config("http://127.0.0.1:1")
	sdk.RetryMaxAttempts = 1
	r.Cloud = aws.New(sdk, aws.Config{Deployment: "tw"})
	if _, err := r.Refresh(t.Context()); err == nil {
		t.Error("a refresh that read nothing succeeded")
	}
	if _, _, err := refresh.Load(t.Context(), b, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestDecodeProduct(t *testing.T) {
	if name, usd, err := refresh.DecodeProduct(fmt.Appendf(nil, entry, "m5.large", "0.0960000000")); err != nil || name != "m5.large" || usd != 0.096 {
		t.Errorf("%s %v %v", name, usd, err)
	}
	for _, bad := range []string{"", "{}", fmt.Sprintf(entry, "", "1"), fmt.Sprintf(entry, "x", "0"), fmt.Sprintf(entry, "x", "NaN"), strings.Replace(fmt.Sprintf(entry, "x", "1"), "Hrs", "Quantity", 1)} {
		if _, _, err := refresh.DecodeProduct([]byte(bad)); err == nil {
			t.Errorf("accepted as a price: %s", bad)
		}
	}
}

func FuzzDecodeProduct(f *testing.F) {
	f.Add(fmt.Appendf(nil, entry, "m5.large", "0.0960000000"))
	f.Add([]byte(`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"1e999"}}}}}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if name, usd, err := refresh.DecodeProduct(b); err == nil && (name == "" || !(usd > 0)) {
			t.Errorf("%q %v", name, usd)
		}
	})
}

// On demand, a P5 machine counts against the quota of all P types. P5 spot requests have a separate quota. Source:
// Service Quotas, Amazon EC2, L-417A185B "Running On-Demand P instances", L-C4BD4855 "All P5 Spot Instance Requests".
func TestQuotaOfPTypesLimitsP5OnDemand(t *testing.T) {
	limits := refresh.Limits{"p": {OnDemand: 0, Spot: 1000}, "p5": {OnDemand: -1, Spot: 0}}
	offers := []catalog.Offer{{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p5.48xlarge", VCPU: 192,
		OnDemandUSD: 98, SpotUSD: 40, HasSpot: true}}
	if kept, dropped := limits.Within(offers); len(kept) != 0 || dropped != 2 {
		t.Errorf("%d offers kept, %d sides dropped", len(kept), dropped)
	}
	limits["p5"] = refresh.Limit{OnDemand: -1, Spot: 192}
	if kept, _ := limits.Within(offers); len(kept) != 1 || !kept[0].HasSpot {
		t.Errorf("%+v", kept)
	}
}

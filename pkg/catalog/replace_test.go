package catalog_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestReplaceWithoutOffersKeepsCatalogue(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	same, err := c.Replace(func(*catalog.Offer) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := errors.Join(c.WriteSnapshot(&a), same.WriteSnapshot(&b)); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("the snapshots differ: %d and %d bytes, %v", a.Len(), b.Len(), err)
	}
	var offers []catalog.Offer
	for o := range c.All() {
		if o.Cloud == "aws" && o.Region == "eu-west-1" {
			offers = append(offers, o)
		}
	}
	same, err = c.Replace(func(o *catalog.Offer) bool { return o.Cloud == "aws" && o.Region == "eu-west-1" }, offers)
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := same.WriteSnapshot(&b); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("after Replace with the same offers, the snapshots differ: %v", err)
	}
}

func TestReplaceRemovesOldAndAddsNewOffers(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	cheap := catalog.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "m5.xlarge", VCPU: 4, MemoryGiB: 16, OnDemandUSD: 0.05, SpotUSD: 0.01, HasSpot: true}
	fresh := catalog.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az9", InstanceType: "m99g.large", VCPU: 2, MemoryGiB: 8, OnDemandUSD: 0.07}
	next, err := c.Replace(func(o *catalog.Offer) bool { return o.Cloud == "aws" && o.Region == "us-east-1" }, []catalog.Offer{cheap, fresh})
	if err != nil {
		t.Fatal(err)
	}
	got, err := next.Lookup("aws/us-east-1/use1-az1/m5.xlarge/emr/spot")
	if err != nil || got.SpotUSD != 0.01 || got.OnDemandUSD != 0.05 || got.SurchargeUSD <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := next.Lookup("aws/us-east-1/use1-az9/m99g.large"); err != nil || got.Arch != catalog.ARM64 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := next.Lookup("aws/us-east-1/use1-az2/m5.xlarge"); !errors.Is(err, catalog.ErrUnknownOffer) {
		t.Errorf("a removed offer is still found: %v", err)
	}
	if zones := next.Zones("aws", "us-east-1"); !slices.Equal(zones, []string{"use1-az1", "use1-az9"}) {
		t.Errorf("zones %v", zones)
	}
	if _, err := next.Lookup("aws/us-west-2/usw2-az1/m5.xlarge"); err != nil {
		t.Error(err)
	}
}

func TestReplaceRejectsInvalidOffers(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	good := catalog.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "x.y", OnDemandUSD: 1}
	for name, spoil := range map[string]func(*catalog.Offer){
		"no price": func(o *catalog.Offer) { o.OnDemandUSD = 0 }, "no number": func(o *catalog.Offer) { o.OnDemandUSD = math.NaN() },
		"no type": func(o *catalog.Offer) { o.InstanceType = "" }, "a slash": func(o *catalog.Offer) { o.Zone = "a/b" },
		"a size": func(o *catalog.Offer) { o.VCPU = math.Inf(1) }, "an accelerator": func(o *catalog.Offer) { o.Accelerator = "a/b" },
	} {
		o := good
		spoil(&o)
		if _, err := c.Replace(func(*catalog.Offer) bool { return false }, []catalog.Offer{o}); !errors.Is(err, catalog.ErrBadData) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Replace(func(*catalog.Offer) bool { return true }, nil); !errors.Is(err, catalog.ErrBadData) {
		t.Errorf("a catalogue without offers: %v", err)
	}
}

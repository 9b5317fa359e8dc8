package catalog_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestReservedCapacityRoundTripsThroughSnapshot(t *testing.T) {
	all, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	aws := func(o *catalog.Offer) bool { return o.Cloud != "aws" || o.Region != "us-east-1" }
	base, err := all.Replace(aws, nil)
	if err != nil {
		t.Fatal(err)
	}
	none := func(*catalog.Reserved) bool { return false }
	mine := []catalog.Reserved{
		{Cloud: "aws", ID: "ri-2", Region: "us-east-1", InstanceType: "m5.large", Count: 3},
		{Cloud: "aws", ID: "cr-1", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p3.2xlarge", Count: 2,
			USDPerHour: 0.1},
	}
	c, err := base.WithReserved(none, mine)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := c.WriteSnapshot(&body); err != nil {
		t.Fatal(err)
	}
	read, err := catalog.ReadSnapshot(body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(mine) // the order is by ID
	if got := read.Reserved(); !slices.Equal(got, mine) || read.Len() != base.Len() {
		t.Errorf("read back %+v, %d offers of %d", got, read.Len(), base.Len())
	}
	// A refresh of the prices does not change the reserved capacity.
	next, err := read.Replace(func(*catalog.Offer) bool { return false }, nil)
	if err != nil || !slices.Equal(next.Reserved(), mine) {
		t.Errorf("after a refresh of the offers: %+v, %v", next, err)
	}
	gone, err := read.WithReserved(func(r *catalog.Reserved) bool { return r.Cloud == "aws" }, nil)
	if err != nil || len(gone.Reserved()) != 0 {
		t.Errorf("%v, %v", gone.Reserved(), err)
	}
	for what, bad := range map[string]catalog.Reserved{
		"no machines": {Cloud: "aws", ID: "cr-3", Region: "us-east-1", InstanceType: "m5.large"},
		"a price":     {Cloud: "aws", ID: "cr-3", Region: "us-east-1", InstanceType: "m5.large", Count: 1, USDPerHour: -1},
		"no name":     {Cloud: "aws", Region: "us-east-1", InstanceType: "m5.large", Count: 1},
		"twice":       mine[0],
	} {
		if _, err := read.WithReserved(none, []catalog.Reserved{bad}); !errors.Is(err, catalog.ErrBadData) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := catalog.ReadSnapshot(body.Bytes()[:len(body.Bytes())-9]); !errors.Is(err, catalog.ErrBadSnapshot) {
		t.Errorf("truncated: %v", err)
	}
}

func TestReservedCoversOnlyItsMachines(t *testing.T) {
	zonal := catalog.Reserved{Cloud: "aws", Region: "r", Zone: "a", InstanceType: "m"}
	regional := catalog.Reserved{Cloud: "aws", Region: "r", InstanceType: "m"}
	for _, c := range []struct {
		o               catalog.Offer
		zonal, regional bool
	}{
		{catalog.Offer{Cloud: "aws", Region: "r", Zone: "a", InstanceType: "m"}, true, true},
		{catalog.Offer{Cloud: "aws", Region: "r", Zone: "b", InstanceType: "m"}, false, true},
		{catalog.Offer{Cloud: "aws", Region: "q", Zone: "a", InstanceType: "m"}, false, false},
		{catalog.Offer{Cloud: "gcp", Region: "r", Zone: "a", InstanceType: "m"}, false, false},
		{catalog.Offer{Cloud: "aws", Region: "r", Zone: "a", InstanceType: "n"}, false, false},
	} {
		if zonal.Covers(&c.o) != c.zonal || regional.Covers(&c.o) != c.regional {
			t.Errorf("%+v: %v, %v", c.o, zonal.Covers(&c.o), regional.Covers(&c.o))
		}
	}
}

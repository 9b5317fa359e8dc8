package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The scope of a block follows from the refusal: the machine type in all zones, the whole region, or all types that
// share a quota.
func TestBlockCoversWhatRefusalConcerns(t *testing.T) {
	now := time.Now()
	at := func(region, kind string, spot bool) apitypes.Offer {
		return apitypes.Offer{Cloud: "aws", Region: region, Zone: region + "-az1", InstanceType: kind, Spot: spot}
	}
	refused := at("us-east-1", "m5.large", false)
	for name, c := range map[string]struct {
		err        *cloud.Error
		blocks     []apitypes.Offer
		leavesOpen []apitypes.Offer
	}{
		"free plan": {&cloud.Error{Kind: cloud.Capacity, Scope: cloud.ScopeType},
			[]apitypes.Offer{at("eu-west-1", "m5.large", true)}, []apitypes.Offer{at("us-east-1", "t3.micro", false)}},
		"no VPC": {&cloud.Error{Kind: cloud.Quota, Scope: cloud.ScopeRegion},
			[]apitypes.Offer{at("us-east-1", "g5.xlarge", true)}, []apitypes.Offer{at("eu-west-1", "m5.large", false)}},
		"vCPU quota": {&cloud.Error{Kind: cloud.Quota, Class: "standard"},
			[]apitypes.Offer{at("us-east-1", "c7g.large", false), at("us-east-1", "r6i.large", false)},
			[]apitypes.Offer{at("us-east-1", "c7g.large", true), at("us-east-1", "g5.xlarge", false),
				at("eu-west-1", "c7g.large", false)}},
		"quota of a family": {&cloud.Error{Kind: cloud.Quota},
			[]apitypes.Offer{at("us-east-1", "m5.xlarge", false)}, []apitypes.Offer{at("us-east-1", "m6i.large", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			b := blockFor(refused, c.err.Kind, c.err, config.Default(), nil, now)
			for _, o := range append(c.blocks, refused) {
				if !record.Covers(b, o, now) {
					t.Errorf("%s does not cover %s %s", record.WhereBlocked(b), record.Where(o), o.InstanceType)
				}
			}
			for _, o := range c.leavesOpen {
				if record.Covers(b, o, now) {
					t.Errorf("%s covers %s %s", record.WhereBlocked(b), record.Where(o), o.InstanceType)
				}
			}
		})
	}
}

func TestBlockCoversQuotasOfOtherClouds(t *testing.T) {
	now := time.Now()
	at := func(cloud, region, kind string, spot bool) apitypes.Offer {
		return apitypes.Offer{Cloud: cloud, Region: region, Zone: region + "-a", InstanceType: kind, Spot: spot}
	}
	d4, n1 := at("azure", "eastus", "Standard_D4s_v3", false), at("gcp", "us-east1", "n1-standard-4", false)
	for name, c := range map[string]struct {
		refused            apitypes.Offer
		class, where       string
		blocks, leavesOpen []apitypes.Offer
	}{
		"all vCPUs of a region of Azure": {d4, "cores", "azure/eastus quota cores on-demand",
			[]apitypes.Offer{at("azure", "eastus", "Standard_E4s_v5", false)},
			[]apitypes.Offer{at("azure", "eastus", "Standard_E4s_v5", true), at("azure", "westus", "Standard_D4s_v3", false)}},
		"a family of Azure": {d4, "standardDSv3Family", "azure/eastus quota standardDSv3Family on-demand",
			[]apitypes.Offer{at("azure", "eastus", "Standard_D64s_v3", false)},
			[]apitypes.Offer{at("azure", "eastus", "Standard_D4s_v5", false)}},
		"processors of a region of Google": {n1, "CPUS", "gcp/us-east1 quota CPUS on-demand",
			[]apitypes.Offer{at("gcp", "us-east1", "e2-standard-4", false)},
			[]apitypes.Offer{at("gcp", "us-east1", "n2-standard-4", false), at("gcp", "us-east1", "e2-standard-4", true)}},
		"processors of all regions of Google": {n1, "CPUS_ALL_REGIONS", "gcp quota CPUS_ALL_REGIONS",
			[]apitypes.Offer{at("gcp", "asia-east1", "c3-standard-4", true)}, []apitypes.Offer{d4}},
		"addresses of a region": {n1, "machines", "gcp/us-east1 quota machines",
			[]apitypes.Offer{at("gcp", "us-east1", "c3-standard-4", true)}, []apitypes.Offer{at("gcp", "us-west1", "n1-standard-4", false)}},
	} {
		err := &cloud.Error{Kind: cloud.Quota, Class: c.class}
		b := blockFor(c.refused, cloud.Quota, err, config.Default(), nil, now)
		if got := record.WhereBlocked(b); got != c.where {
			t.Errorf("%s: blocks %s, want %s", name, got, c.where)
		}
		for _, o := range append(c.blocks, c.refused) {
			if !record.Covers(b, o, now) {
				t.Errorf("%s does not cover %s %s", record.WhereBlocked(b), record.Where(o), o.InstanceType)
			}
		}
		for _, o := range c.leavesOpen {
			if record.Covers(b, o, now) {
				t.Errorf("%s covers %s %s", record.WhereBlocked(b), record.Where(o), o.InstanceType)
			}
		}
	}
}

// A refusal for lack of quota blocks all types that share the quota, for an hour or more. When a machine of these
// types ends, that block is shortened to a minute. Blocks of other classes, markets and regions, and blocks with
// another cause, must not change.
func TestBlockEndsWithMachineOfItsClass(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	ended := apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "c7g.large"}
	other := func(change func(*apitypes.Offer)) apitypes.Offer {
		o := ended
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		refused apitypes.Offer
		err     *cloud.Error
		ends    bool
	}{
		"the quota of its class":  {other(func(o *apitypes.Offer) { o.InstanceType = "m5.large" }), &cloud.Error{Kind: cloud.Quota, Class: "standard"}, true},
		"the quota of its family": {other(func(o *apitypes.Offer) { o.InstanceType = "c7g.xlarge" }), &cloud.Error{Kind: cloud.Quota}, true},
		"another class":           {other(func(o *apitypes.Offer) { o.InstanceType = "g5.xlarge" }), &cloud.Error{Kind: cloud.Quota, Class: "g"}, false},
		"another market":          {other(func(o *apitypes.Offer) { o.Spot = true }), &cloud.Error{Kind: cloud.Quota, Class: "standard"}, false},
		"another region":          {other(func(o *apitypes.Offer) { o.Region = "eu-west-1" }), &cloud.Error{Kind: cloud.Quota, Class: "standard"}, false},
		"no VPC":                  {ended, &cloud.Error{Kind: cloud.Quota, Scope: cloud.ScopeRegion}, false},
		"no capacity":             {ended, &cloud.Error{Kind: cloud.Capacity}, false},
	} {
		b := blockFor(c.refused, c.err.Kind, c.err, config.Default(), nil, now)
		later := now.Add(5 * time.Minute)
		d := DecideQuotaFreed(ended, []apitypes.Block{b}, later)
		if got := len(d.Writes) > 0; got != c.ends || len(d.Emits) > 0 {
			t.Errorf("%s: it ends: %v, want %v", name, got, c.ends)
			continue
		}
		if !c.ends {
			continue
		}
		left := d.Writes[0].Value.(apitypes.Block)
		if !record.Covers(left, c.refused, later) || record.Covers(left, c.refused, later.Add(time.Minute)) {
			t.Errorf("%s: it ends at %v", name, left.Until)
		}
		if d := DecideQuotaFreed(ended, []apitypes.Block{left}, later); len(d.Writes) > 0 {
			t.Errorf("%s: a second machine writes it again", name)
		}
	}
}

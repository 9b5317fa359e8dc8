package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A refusal blocks what it concerns: the type everywhere, the whole region, or the class of types with one quota.
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

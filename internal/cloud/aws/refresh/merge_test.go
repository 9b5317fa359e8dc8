package refresh_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Only types that can be bought may become offers. Source: EC2 API reference, InstanceTypeInfo (botocore ec2
// 2016-11-15): SupportedUsageClasses is any of spot, on-demand and capacity-block; BareMetal;
// SupportedVirtualizationTypes is any of hvm and paravirtual. A1 and P3: see internal/catalog/sellable.
func TestRefreshOffersOnlyTypesThatCanBeBought(t *testing.T) {
	onDemand := []types.UsageClassType{types.UsageClassTypeOnDemand, types.UsageClassTypeSpot}
	yes := true
	for name, c := range map[string]struct {
		info types.InstanceTypeInfo
		want int
	}{
		"m5.large":         {types.InstanceTypeInfo{SupportedUsageClasses: onDemand}, 1},
		"m9.large":         {types.InstanceTypeInfo{}, 1}, // EC2 reports nothing about this type
		"p6-b200.48xlarge": {types.InstanceTypeInfo{SupportedUsageClasses: []types.UsageClassType{"capacity-block"}}, 0},
		"i9.large":         {types.InstanceTypeInfo{SupportedUsageClasses: onDemand, BareMetal: &yes}, 0},
		"h0.large": {types.InstanceTypeInfo{SupportedVirtualizationTypes: []types.VirtualizationType{
			types.VirtualizationTypeParavirtual}}, 0},
		"a1.large":   {types.InstanceTypeInfo{SupportedUsageClasses: onDemand}, 0},
		"p3.2xlarge": {types.InstanceTypeInfo{SupportedUsageClasses: onDemand}, 0},
	} {
		known := map[string]catalog.Offer{"x": {Cloud: "aws", Region: "us-east-1", InstanceType: name, VCPU: 2}}
		got := refresh.Merge("us-east-1", name, c.info, known, map[string]float64{name: 1})
		if len(got) != c.want {
			t.Errorf("%s: %d offers, want %d", name, len(got), c.want)
		}
	}
}

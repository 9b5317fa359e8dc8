package refresh

import (
	"context"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// quotaCodes are the codes of EC2's vCPU quotas, on-demand and spot, by class of machine families (Service Quotas
// console, Amazon EC2: "Running On-Demand … instances", "All … Spot Instance Requests").
var quotaCodes = map[string][2]string{
	"standard": {"L-1216C47A", "L-34B43A08"}, // A, C, D, H, I, M, R, T, Z
	"g":        {"L-DB2E81BA", "L-3819A6DF"}, // G and VT
	"p":        {"L-417A185B", "L-7212CCBC"},
	"inf":      {"L-1945791B", "L-B5D1601B"},
	"trn":      {"L-2C3B7624", "L-6B0D517C"},
	"x":        {"L-7295265B", "L-E3A00192"},
	"f":        {"L-74FC7D96", "L-88CF9481"},
	"dl":       {"L-6E869C2A", "L-85EED4F7"},
	"p5":       {"", "L-C4BD4855"}, // on demand they count as p
}

// QuotaCode returns the code of the vCPU quota of a class of machine families; "" if the class has none.
func QuotaCode(class string, spot bool) string {
	if spot {
		return quotaCodes[class][1]
	}
	return quotaCodes[class][0]
}

// Limits are a region's vCPU quotas by class. The quota of a missing class is unknown.
type Limits map[string]Limit

// Limit is the maximum number of vCPUs that an account may have at a time; negative is unknown.
type Limit struct{ OnDemand, Spot float64 }

// Quotas reads the account's limits in the region of sdk.
func Quotas(ctx context.Context, sdk awssdk.Config) (Limits, error) {
	values := map[string]float64{}
	pages := servicequotas.NewListServiceQuotasPaginator(servicequotas.NewFromConfig(sdk),
		&servicequotas.ListServiceQuotasInput{
			ServiceCode: awssdk.String("ec2"), MaxResults: awssdk.Int32(100),
		})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, aws.Typed(err)
		}
		for _, q := range page.Quotas {
			if q.Value != nil {
				values[awssdk.ToString(q.QuotaCode)] = *q.Value
			}
		}
	}
	limits := Limits{}
	for class, codes := range quotaCodes {
		limit := Limit{OnDemand: -1, Spot: -1}
		if v, ok := values[codes[0]]; ok {
			limit.OnDemand = v
		}
		if v, ok := values[codes[1]]; ok {
			limit.Spot = v
		}
		if limit.OnDemand >= 0 || limit.Spot >= 0 {
			limits[class] = limit
		}
	}
	return limits, nil
}

// within removes offers of which the account cannot buy a single machine: the spot side of an offer, or the whole
// offer. A new account may not buy any GPU machine. Otherwise a planner would find that out by trying one region
// after another. A quota that is only used up at present is reported by the launch.
func (l Limits) within(offers []catalog.Offer) (kept []catalog.Offer, dropped int) {
	kept = slices.Clone(offers)
	for i := range kept {
		o := &kept[i]
		limit, known := l[ec2types.QuotaClass(o.InstanceType, true)]
		if known && o.HasSpot && limit.Spot >= 0 && limit.Spot < o.VCPU {
			o.HasSpot, o.SpotUSD = false, 0
			dropped++
		}
	}
	kept = slices.DeleteFunc(kept, func(o catalog.Offer) bool {
		limit, known := l[ec2types.QuotaClass(o.InstanceType, false)]
		no := known && !o.HasSpot && limit.OnDemand >= 0 && limit.OnDemand < o.VCPU
		if no {
			dropped++
		}
		return no
	})
	return kept, dropped
}

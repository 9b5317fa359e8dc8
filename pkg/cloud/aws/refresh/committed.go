package refresh

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans/types"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// plansRegion is where the account's Savings Plans are asked for, of whatever region they are.
const plansRegion = "us-east-1"

// Committed reads what the account has committed itself to pay an hour: Savings Plans for a family in a region, and for
// machines of any region, of which a machine takes what it costs at the plan's rates. What others use of them in these
// regions is not counted: machines on demand that no reserved instance pays, and capacity that is reserved, which plans
// pay for as well. Machines of this deployment are the broker's own count.
//
// Source: Savings Plans user guide, "How Savings Plans apply to your AWS usage"
// (plans of a family before those of all).
func Committed(ctx context.Context, c *aws.Cloud, regions []string, now time.Time) ([]catalog.Reserved, error) {
	client := savingsplans.NewFromConfig(c.SDK(plansRegion))
	plans, err := activePlans(ctx, client, regions, now)
	if err != nil || len(plans) == 0 {
		return nil, aws.Typed(err)
	}
	for _, p := range plans {
		if err := rates(ctx, client, p, regions); err != nil {
			return nil, aws.Typed(err)
		}
	}
	for _, region := range regions {
		others, err := unpaid(ctx, c, region)
		if err != nil {
			return nil, aws.Typed(err)
		}
		for _, kind := range others {
			renew.Use(plans, region+"/"+kind)
		}
	}
	all := make([]catalog.Reserved, len(plans))
	for i, p := range plans {
		all[i] = *p
	}
	return all, nil
}

// activePlans are those of machines, of a family first, without what they cover.
func activePlans(ctx context.Context, client *savingsplans.Client, regions []string,
	now time.Time) (all []*catalog.Reserved, err error) {
	in := &savingsplans.DescribeSavingsPlansInput{States: []types.SavingsPlanState{types.SavingsPlanStateActive}}
	for {
		page, err := client.DescribeSavingsPlans(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range page.SavingsPlans {
			p := &page.SavingsPlans[i]
			usd, err := strconv.ParseFloat(awssdk.ToString(p.Commitment), 64)
			if err != nil || !(usd > 0) || p.State != types.SavingsPlanStateActive ||
				p.Currency != types.CurrencyCodeUsd {
				continue
			}
			one := &catalog.Reserved{Cloud: aws.Name, ID: "sp-" + awssdk.ToString(p.SavingsPlanId),
				By: catalog.BySavingsPlan, Total: capacity.HadUSD(usd),
				Commitment: &catalog.Commitment{What: "machines of any type",
					Has: capacity.HadUSD(usd), Takes: map[string]apitypes.Amount{}}}
			if until, err := time.Parse(time.RFC3339, awssdk.ToString(p.End)); err == nil {
				one.Until = until
			}
			if !one.Until.IsZero() && !one.Until.After(now) {
				continue
			}
			switch p.SavingsPlanType {
			case types.SavingsPlanTypeCompute:
			case types.SavingsPlanTypeEc2Instance:
				one.Region = awssdk.ToString(p.Region)
				one.Commitment.What = awssdk.ToString(p.Ec2InstanceFamily) + " machines"
				if !slices.Contains(regions, one.Region) {
					continue
				}
			default:
				continue
			}
			all = append(all, one)
		}
		if in.NextToken = page.NextToken; awssdk.ToString(page.NextToken) == "" {
			break
		}
	}
	slices.SortFunc(all, func(x, y *catalog.Reserved) int {
		return cmp.Or(-strings.Compare(x.Region, y.Region), strings.Compare(x.ID, y.ID)) // those of all regions last
	})
	return all, nil
}

// rates reads what machines with Linux on shared hosts take of a plan.
func rates(ctx context.Context, client *savingsplans.Client, p *catalog.Reserved, regions []string) error {
	filter := func(name types.SavingsPlanRateFilterName, values ...string) types.SavingsPlanRateFilter {
		return types.SavingsPlanRateFilter{Name: name, Values: values}
	}
	if p.Region != "" {
		regions = []string{p.Region}
	}
	in := &savingsplans.DescribeSavingsPlanRatesInput{
		SavingsPlanId: awssdk.String(strings.TrimPrefix(p.ID, "sp-")), MaxResults: awssdk.Int32(1000),
		Filters: []types.SavingsPlanRateFilter{
			filter(types.SavingsPlanRateFilterNameRegion, regions...),
			filter(types.SavingsPlanRateFilterNameProductDescription, linux),
			filter(types.SavingsPlanRateFilterNameTenancy, "shared"),
			filter(types.SavingsPlanRateFilterNameProductType, string(types.SavingsPlanProductTypeEc2)),
		},
	}
	for {
		page, err := client.DescribeSavingsPlanRates(ctx, in)
		if err != nil {
			return err
		}
		for i := range page.SearchResults {
			if what, takes, ok := rate(&page.SearchResults[i]); ok {
				p.Commitment.Takes[what] = takes
			}
		}
		if in.NextToken = page.NextToken; awssdk.ToString(page.NextToken) == "" {
			return nil
		}
	}
}

// rate is what a machine of a type takes of a plan; ok is false for what is no machine with Linux, on a shared host,
// and for capacity that is reserved and not used, which has a rate of its own.
func rate(r *types.SavingsPlanRate) (what string, takes apitypes.Amount, ok bool) {
	is := map[string]string{}
	for _, p := range r.Properties {
		is[string(p.Name)] = awssdk.ToString(p.Value)
	}
	usd, err := strconv.ParseFloat(awssdk.ToString(r.Rate), 64)
	region, kind := is["region"], is["instanceType"]
	if err != nil || !(usd > 0) || r.Currency != types.CurrencyCodeUsd || r.Unit != types.SavingsPlanRateUnitHours ||
		r.ProductType != types.SavingsPlanProductTypeEc2 || is["productDescription"] != linux ||
		is["tenancy"] != "shared" || !strings.Contains(awssdk.ToString(r.UsageType), "BoxUsage") ||
		region == "" || kind == "" {
		return "", takes, false
	}
	return region + "/" + kind, capacity.TakenUSD(usd), true
}

// unpaid are the types of all that a plan may pay for in a region without machines of this deployment: what is
// reserved, whether it is used or not, and what others run on demand beside that, as far as no reserved instances do.
func unpaid(ctx context.Context, c *aws.Cloud, region string) (all []string, err error) {
	client := c.EC2(region)
	zones, err := zoneIDs(ctx, client)
	if err != nil {
		return nil, err
	}
	running, err := instances(ctx, client, c.Deployment())
	if err != nil {
		return nil, err
	}
	active, err := activeReservations(ctx, client)
	if err != nil {
		return nil, err
	}
	_, rest, err := reservedInstances(ctx, client, region, zones, payable(running, active))
	for _, i := range rest {
		all = append(all, i.kind)
	}
	slices.Sort(all)
	return all, err
}

// committed puts what the account has committed itself to in the place of what was known of it.
func (r *Refresher) committed(ctx context.Context, base *catalog.Catalog, regions []string) (*catalog.Catalog, error) {
	found, err := Committed(ctx, r.Cloud, regions, r.Now())
	if err != nil {
		return nil, err
	}
	return base.WithTold(catalog.Told{Cloud: aws.Name, Plans: true, Now: r.Now()}, renew.Left(found))
}

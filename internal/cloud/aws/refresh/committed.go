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

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// regionsAtOnce is the number of regions that are asked in parallel.
const regionsAtOnce = 20

// plansRegion is the region of the API that lists the account's Savings Plans of all regions.
const plansRegion = "us-east-1"

// Committed returns the hourly payments to which the account has committed itself: Savings Plans for a family in a
// region, and for machines of any region. The part of a plan that a machine uses is its price at the plan's rates.
// The use by others in these regions is deducted: on-demand machines for which no reserved instance pays, and
// capacity reservations, for which plans pay as well. The broker itself counts the machines of this deployment.
//
// Source: Savings Plans user guide, "How Savings Plans apply to your AWS usage" (plans for a family apply before
// plans for all machines).
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
	others := make([][]string, len(regions))
	if err := driver.Each(len(regions), regionsAtOnce, func(i int) (err error) {
		others[i], err = unpaid(ctx, c, regions[i])
		return err
	}); err != nil {
		return nil, aws.Typed(err)
	}
	for i, region := range regions {
		for _, kind := range others[i] {
			renew.Deduct(plans, region+"/"+kind)
		}
	}
	all := make([]catalog.Reserved, len(plans))
	for i, p := range plans {
		all[i] = *p
	}
	return all, nil
}

// activePlans returns the plans for machines, those for a family first. The types that they cover are not filled in.
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
				By: catalog.BySavingsPlan, Total: catalog.SupplyUSD(usd),
				Commitment: &catalog.Commitment{What: "machines of any type",
					Has: catalog.SupplyUSD(usd), Takes: map[string]apitypes.Amount{}}}
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
		return cmp.Or(-strings.Compare(x.Region, y.Region), strings.Compare(x.ID, y.ID)) // plans for all regions last
	})
	return all, nil
}

// rates reads the amounts of a plan that Linux machines on shared hosts use.
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

// rate returns the amount of a plan that a machine of a type uses. ok is false unless the rate is for a Linux machine
// on a shared host. It is also false for the rate of unused reserved capacity.
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
	return region + "/" + kind, catalog.DemandUSD(usd), true
}

// unpaid returns the machine types in a region for which a plan may pay, without this deployment's machines: those of
// all capacity reservations, used or not, and of other on-demand machines for which no reserved instances pay.
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

// committed replaces the catalogue's Savings Plans by the account's current ones.
func (r *Refresher) committed(ctx context.Context, base *catalog.Catalog, regions []string) (*catalog.Catalog, error) {
	found, err := Committed(ctx, r.Cloud, regions, r.Now())
	if err != nil {
		return nil, err
	}
	return base.WithAnswer(catalog.CloudAnswer{Cloud: aws.Name, Plans: true, Now: r.Now()}, renew.Usable(found))
}

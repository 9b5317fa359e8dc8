package azure

import (
	"context"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// plansVersion is the version of the price list that includes the rates of savings plans.
const plansVersion = "2023-01-01-preview"

// committed replaces the catalogue's savings plans by the current ones for the subscription. A machine uses as much
// of a plan as the public price list says for the plan's term. What others use in these regions is deducted:
// on-demand machines that no reservation pays for, and all capacity reservations. The broker itself counts the
// machines of the deployment. If several subscriptions share a plan, only the use by this one is deducted.
//
// Source: Azure documentation, "How an Azure savings plan discount is applied" and "On-demand Capacity Reservation".
func (r *Refresher) committed(ctx context.Context, unpaid []string,
	base *catalog.Catalog) (*catalog.Catalog, error) {
	found, err := r.Cloud.SavingsPlans(ctx)
	if err != nil {
		return nil, err
	}
	told := catalog.CloudAnswer{Cloud: Name, Plans: true, Now: r.Now()}
	if len(found) == 0 {
		return base.WithAnswer(told, nil)
	}
	plans := map[int][]*catalog.Reserved{} // by term in years
	var all []*catalog.Reserved
	for _, f := range found {
		one := &catalog.Reserved{Cloud: Name, ID: "sp-" + f.ID, By: catalog.BySavingsPlan, Until: f.Until,
			Commitment: &catalog.Commitment{What: "machines of any type", Has: catalog.SupplyUSD(f.USDPerHour),
				Takes: map[string]apitypes.Amount{}}}
		plans[f.Years], all = append(plans[f.Years], one), append(all, one)
	}
	slices.SortFunc(all, func(x, y *catalog.Reserved) int { return strings.Compare(x.ID, y.ID) })
	for _, region := range r.Cloud.Regions() {
		prices, err := r.priceList(ctx, region, plansVersion)
		if err != nil {
			return nil, err
		}
		for years, rates := range prices.plans {
			for kind, usd := range rates {
				for _, p := range plans[years] {
					if usd > 0 {
						p.Commitment.Takes[region+"/"+kind] = catalog.DemandUSD(usd)
					}
				}
			}
		}
	}
	for _, what := range unpaid {
		renew.Deduct(all, what)
	}
	left := make([]catalog.Reserved, len(all))
	for i, p := range all {
		left[i] = *p
	}
	return base.WithAnswer(told, renew.Usable(left))
}

// payable returns the users of capacity (REGION/TYPE) for which reserved virtual machines and plans may pay, without
// this deployment's machines: all capacity reservations, used or not, and the on-demand machines of others outside
// them.
func (r *Refresher) payable(ctx context.Context, reserved []Capacity) (all []string, err error) {
	for _, c := range reserved {
		all = append(all, slices.Repeat([]string{c.Region + "/" + c.InstanceType}, c.All)...)
	}
	others, err := r.Cloud.Others(ctx)
	for _, o := range others {
		all = append(all, o.Region+"/"+o.InstanceType)
	}
	slices.Sort(all)
	return all, err
}

package refresh

import (
	"context"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// plansVersion is that of the price list which says what machines take of savings plans.
const plansVersion = "2023-01-01-preview"

// committed puts the savings plans that are for the subscription in the place of what was known of them. A machine
// takes of one what the public price list says for plans of so many years. What others use of them in these regions is
// not counted: what is not paid of their machines on demand, and of all capacity that is reserved. Machines of the
// deployment are the broker's own count. Of subscriptions that share a plan only this one is asked.
//
// Source: Azure documentation, "How an Azure savings plan discount is applied" and "On-demand Capacity Reservation".
func (r *Refresher) committed(ctx context.Context, unpaid []string,
	base *catalog.Catalog) (*catalog.Catalog, error) {
	found, err := r.Cloud.SavingsPlans(ctx)
	if err != nil {
		return nil, err
	}
	told := catalog.Told{Cloud: azure.Name, Plans: true, Now: r.Now()}
	if len(found) == 0 {
		return base.WithTold(told, nil)
	}
	plans := map[int][]*catalog.Reserved{} // by their years
	var all []*catalog.Reserved
	for _, f := range found {
		one := &catalog.Reserved{Cloud: azure.Name, ID: "sp-" + f.ID, By: catalog.BySavingsPlan, Until: f.Until,
			Commitment: &catalog.Commitment{What: "machines of any type", Has: capacity.HadUSD(f.USDPerHour),
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
						p.Commitment.Takes[region+"/"+kind] = capacity.TakenUSD(usd)
					}
				}
			}
		}
	}
	for _, what := range unpaid {
		renew.Use(all, what)
	}
	left := make([]catalog.Reserved, len(all))
	for i, p := range all {
		left[i] = *p
	}
	return base.WithTold(told, renew.Left(left))
}

// payable is all that reservations of virtual machines and plans may pay for (REGION/TYPE) without machines of this
// deployment: what is reserved, whether it is used or not, and what others run on demand beside that.
func (r *Refresher) payable(ctx context.Context, reserved []azure.Capacity) (all []string, err error) {
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

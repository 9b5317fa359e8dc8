package azure

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Owned returns the capacity that the subscription already has, used up or not. For savings plans it returns Azure's
// own figure of the usage, because counting the usage of others would need all prices of all regions.
func Owned(ctx context.Context, c *Cloud) (told []driver.Reserved, lacks []driver.Lack) {
	r := &Refresher{Cloud: c}
	unknown := func(what, role, scope string, err error) {
		lacks = append(lacks, c.Unknown(what, role, scope, err))
	}
	found, err := c.Reservations(ctx)
	if err != nil {
		unknown("the reserved capacity of the subscription", "Reader", "", err)
	}
	told = renew.Reported(reserved(found))
	users, err := r.payable(ctx, found)
	if err != nil {
		unknown("the list of other machines of the subscription", "Reader", "", err)
	}
	bought, _, err := r.reservedInstances(ctx, users)
	if err != nil {
		unknown("the list of reserved virtual machines", "Reservations Reader",
			"/providers/Microsoft.Capacity", err)
	}
	told = append(told, renew.Reported(bought)...)
	plans, err := c.SavingsPlans(ctx)
	if err != nil {
		unknown("the list of savings plans", "Savings plan Reader", "/providers/Microsoft.BillingBenefits", err)
	}
	for _, p := range plans {
		one := driver.Reserved{ID: "sp-" + p.ID, Where: "all regions", By: catalog.BySavingsPlan,
			What: "machines of any type", Total: catalog.SupplyUSD(p.USDPerHour)}
		if p.Used >= 0 {
			one.UsedLastDay = &p.Used
		}
		told = append(told, one)
	}
	return told, lacks
}

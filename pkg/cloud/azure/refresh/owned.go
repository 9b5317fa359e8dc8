package refresh

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// Owned says what the subscription has already, used up or not. Of savings plans Azure itself says how much was used:
// counting what others use of them would take all prices of all regions.
func Owned(ctx context.Context, c *azure.Cloud) (told []driver.Reserved, lacks []driver.Lack) {
	r := &Refresher{Cloud: c}
	unknown := func(what, role, scope string, err error) {
		lacks = append(lacks, c.Unknown(what, role, scope, err))
	}
	found, err := c.Reservations(ctx)
	if err != nil {
		unknown("what the subscription has reserved", "Reader", "", err)
	}
	told = renew.Reported(reserved(found))
	users, err := r.payable(ctx, found)
	if err != nil {
		unknown("what others run", "Reader", "", err)
	}
	bought, _, err := r.reservedInstances(ctx, users)
	if err != nil {
		unknown("which reservations of virtual machines there are", "Reservations Reader",
			"/providers/Microsoft.Capacity", err)
	}
	told = append(told, renew.Reported(bought)...)
	plans, err := c.SavingsPlans(ctx)
	if err != nil {
		unknown("which savings plans there are", "Savings plan Reader", "/providers/Microsoft.BillingBenefits", err)
	}
	for _, p := range plans {
		one := driver.Reserved{ID: "sp-" + p.ID, Where: "all regions", By: catalog.BySavingsPlan,
			What: "machines of any type", Total: capacity.HadUSD(p.USDPerHour)}
		if p.Used >= 0 {
			one.UsedLastDay = &p.Used
		}
		told = append(told, one)
	}
	return told, lacks
}

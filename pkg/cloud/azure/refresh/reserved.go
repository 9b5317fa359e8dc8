package refresh

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// reserved is the capacity that the subscription has, full or not. It is paid for whether it is used or not, so one
// more machine costs nothing on the margin. Offers have no zones here: a machine is put in that
// of its reservation when it is bought.
func reserved(found []azure.Capacity) (all []catalog.Reserved) {
	for _, f := range found {
		one := catalog.Reserved{Cloud: azure.Name, ID: f.ID, Region: f.Region, InstanceType: f.InstanceType,
			Count: f.Free, By: "capacity reservation", Total: capacity.Machines(f.All)}
		all = append(all, one)
	}
	return all
}

// withReserved puts it in the place of what was known, without what is full, or has a name that no offer can have.
func (r *Refresher) withReserved(all []catalog.Reserved, base *catalog.Catalog) (*catalog.Catalog, error) {
	return base.WithTold(catalog.Told{Cloud: azure.Name, Now: r.Now()}, renew.Left(all))
}

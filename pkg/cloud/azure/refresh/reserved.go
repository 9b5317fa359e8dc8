package refresh

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
)

// reserved puts the capacity that the subscription has in the place of what was known of it. It is paid for whether it
// is used or not, so one more machine costs nothing on the margin. Offers have no zones here: a machine is put in that
// of its reservation when it is bought.
func (r *Refresher) reserved(found []azure.Capacity, bought []catalog.Reserved,
	base *catalog.Catalog) (*catalog.Catalog, error) {
	all := slices.Clone(bought)
	for _, f := range found {
		one := catalog.Reserved{Cloud: azure.Name, ID: f.ID, Region: f.Region, InstanceType: f.InstanceType,
			Count: f.Free, By: "capacity reservation"}
		if one.Check() != nil {
			continue // it is full, or has a name that no offer can have
		}
		all = append(all, one)
	}
	return base.WithTold(catalog.Told{Cloud: azure.Name, Now: r.Now()}, all)
}

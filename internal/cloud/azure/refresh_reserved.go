package azure

import (
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// reserved converts the capacity reservations of the subscription, full or not. They are paid for whether or not they
// are used, so using them costs nothing extra. Offers have no zones here: a machine is put in its reservation's zone
// when it is bought.
func reserved(found []Capacity) (all []catalog.Reserved) {
	for _, f := range found {
		one := catalog.Reserved{Cloud: Name, ID: f.ID, Region: f.Region, InstanceType: f.InstanceType,
			Count: f.Free, By: "capacity reservation", Total: catalog.Machines(f.All)}
		all = append(all, one)
	}
	return all
}

// withReserved replaces the catalogue's reserved capacity, without reservations that are full or that no offer can
// name.
func (r *Refresher) withReserved(all []catalog.Reserved, base *catalog.Catalog) (*catalog.Catalog, error) {
	return base.WithAnswer(catalog.CloudAnswer{Cloud: Name, Now: r.Now()}, renew.Usable(all))
}

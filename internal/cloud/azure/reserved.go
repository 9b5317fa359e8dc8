package azure

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// A capacity reservation's ID in the catalogue consists of the resource group, the reservation group that machines
// name, the reservation, and its zone if it has one.
const (
	capacityReservation = "crg-"
	between             = "--"
)

// reservationID returns the ID of a reservation in the catalogue. It is empty if the ID would be ambiguous.
func reservationID(group, reservations, name, zone string) string {
	parts := []string{group, reservations, name}
	for _, p := range parts {
		if p == "" || strings.Contains(p, between) || strings.HasPrefix(p, "-") || strings.HasSuffix(p, "-") {
			return ""
		}
	}
	if zone != "" {
		parts = append(parts, zone)
	}
	return capacityReservation + strings.Join(parts, between)
}

// reservation returns the reservation group that machines of an offer name, and their zone. ok is false for an offer
// without a reservation, or with one that only changes the price.
func (c *Cloud) reservation(o apitypes.Offer) (group, zone string, ok bool) {
	rest, ok := strings.CutPrefix(o.Reservation, capacityReservation)
	parts := strings.Split(rest, between)
	if !ok || len(parts) < 3 {
		return "", "", false
	}
	if len(parts) > 3 {
		zone = parts[3]
	}
	return "/subscriptions/" + c.cfg.Subscription + "/resourceGroups/" + parts[0] +
		"/providers/Microsoft.Compute/capacityReservationGroups/" + parts[1], zone, true
}

// Capacity is a capacity reservation of the subscription, for refreshing the catalogue.
type Capacity struct {
	ID           string // by which offers name it; empty if they cannot
	Region       string
	InstanceType string
	Free         int // machines on it that are unused, or used by this deployment
	All          int // all machines on it
}

// Reservations returns the capacity reservations of the subscription, full or not (Azure documentation, "On-demand
// Capacity Reservation").
func (c *Cloud) Reservations(ctx context.Context) (all []Capacity, err error) {
	mine, err := c.Machines(ctx, "")
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, m := range mine {
		ours[strings.ToLower(c.nameOf(m.Cluster, m.Rank))] = true
	}
	groups := c.reservedGroups.NewListBySubscriptionPager(nil)
	for groups.More() {
		page, err := groups.NextPage(ctx)
		if err != nil {
			return nil, Typed(err)
		}
		for _, g := range page.Value {
			group, name := groupOf(text(g.ID)), text(g.Name)
			if group == "" || name == "" {
				continue
			}
			found, err := c.inGroup(ctx, group, name, ours)
			if err != nil {
				return nil, Typed(err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// groupOf returns the resource group in a resource's ID.
func groupOf(id string) string {
	parts := strings.Split(id, "/")
	for i, p := range parts {
		if strings.EqualFold(p, "resourceGroups") && i+1 < len(parts) {
			return parts[i+1]
		}
	}
	return ""
}

func (c *Cloud) inGroup(ctx context.Context, group, reservations string, ours map[string]bool) (all []Capacity,
	err error) {
	pages := c.reserved.NewListByCapacityReservationGroupPager(group, reservations, nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Value {
			zone := ""
			if len(r.Zones) > 0 {
				zone = text(r.Zones[0])
			}
			one := Capacity{ID: reservationID(group, reservations, text(r.Name), zone), Region: text(r.Location)}
			if r.SKU == nil || !c.buysIn(one.Region) {
				continue
			}
			one.InstanceType = text(r.SKU.Name)
			view, err := c.reserved.Get(ctx, group, reservations, text(r.Name),
				&armcompute.CapacityReservationsClientGetOptions{
					Expand: to.Ptr(armcompute.CapacityReservationInstanceViewTypesInstanceView),
				})
			if err != nil {
				return nil, err
			}
			if one.All, one.Free = room(view.CapacityReservation, ours); one.All > 0 {
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// buysIn reports whether machines are bought in a region.
func (c *Cloud) buysIn(region string) bool {
	for _, r := range c.cfg.Regions {
		if strings.EqualFold(r, region) {
			return true
		}
	}
	return false
}

// room returns the number of machines that a reservation is for, and the number of them that others do not use.
func room(r armcompute.CapacityReservation, ours map[string]bool) (all, n int) {
	if r.SKU == nil || r.SKU.Capacity == nil || r.Properties == nil ||
		text(r.Properties.ProvisioningState) != stateSucceeded {
		return 0, 0
	}
	all = int(*r.SKU.Capacity)
	n = all
	view := r.Properties.InstanceView
	if view == nil || view.UtilizationInfo == nil {
		return all, n
	}
	for _, vm := range view.UtilizationInfo.VirtualMachinesAllocated {
		id := text(vm.ID)
		if !ours[strings.ToLower(id[strings.LastIndexByte(id, '/')+1:])] {
			n--
		}
	}
	return all, max(n, 0)
}

// ReservedActions are the rights in the subscription for finding and using capacity reservations. Without them the
// broker does not search for any.
func ReservedActions() []string {
	return []string{
		"Microsoft.Compute/capacityReservationGroups/read",
		"Microsoft.Compute/capacityReservationGroups/capacityReservations/read",
		"Microsoft.Compute/capacityReservationGroups/deploy/action",
	}
}

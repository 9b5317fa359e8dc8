package gce

import (
	"net/http"
	"slices"
	"time"

	compute "google.golang.org/api/compute/v1"
)

// Reserve gives the project a reservation of machines of a type in a zone. If specific is true, requests must name it;
// otherwise it is used by every request that fits.
func (c *Cloud) Reserve(zone, name, machineType string, count int, specific bool) *compute.Reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &compute.Reservation{
		Kind: "compute#reservation", Id: c.number(), Name: name, Zone: c.link("zones/%s", zone), Status: "READY",
		SelfLink:                    c.link("zones/%s/reservations/%s", zone, name),
		SpecificReservationRequired: specific,
		SpecificReservation: &compute.AllocationSpecificSKUReservation{
			Count: int64(count), AssuredCount: int64(count),
			InstanceProperties: &compute.AllocationSpecificSKUAllocationReservedInstanceProperties{
				MachineType: machineType},
		},
	}
	c.world.reservations = append(c.world.reservations, r)
	return r
}

// Occupy makes other users' machines run on a reservation.
func (c *Cloud) Occupy(r *compute.Reservation, machines int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.occupied[r.Name] = machines
}

// Unreserve removes a reservation. Its machines keep running at their normal price.
func (c *Cloud) Unreserve(r *compute.Reservation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.reservations = slices.DeleteFunc(c.world.reservations, func(k *compute.Reservation) bool { return k == r })
}

// Beside returns the number of machines without a reservation.
func (c *Cloud) Beside() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.reservation == nil && m.record.Status != "STOPPING" {
			n++
		}
	}
	return n
}

func (c *Cloud) aggregateReservations(r *call) (any, *Fault) {
	items := map[string]compute.ReservationsScopedList{}
	for _, known := range c.world.reservations {
		one, spec := *known, *known.SpecificReservation
		spec.InUseCount = int64(c.inUse(known))
		one.SpecificReservation = &spec
		scope := "zones/" + base(one.Zone)
		part := items[scope]
		part.Reservations = append(part.Reservations, &one)
		items[scope] = part
	}
	return &compute.ReservationAggregatedList{Kind: "compute#reservationAggregatedList", Items: items}, nil
}

func (c *Cloud) inUse(r *compute.Reservation) int {
	n := c.world.occupied[r.Name]
	for _, m := range c.machines {
		if m.reservation == r {
			n++
		}
	}
	return n
}

// reserve returns the reservation for the machines of a request, or nil for none. It rejects a request that names a
// reservation that is missing, does not fit, or has no room.
func (c *Cloud) reserve(zone string, p *compute.InstanceProperties, n int) (*compute.Reservation, *Fault) {
	a := p.ReservationAffinity
	spot := p.Scheduling != nil && p.Scheduling.ProvisioningModel == "SPOT"
	switch {
	case spot && a != nil:
		return nil, invalid("Reservations cannot be consumed by spot instances.")
	case spot:
		return nil, nil
	case a != nil && a.ConsumeReservationType == "SPECIFIC_RESERVATION":
		return c.named(zone, p.MachineType, a, n)
	}
	i := slices.IndexFunc(c.world.reservations, func(r *compute.Reservation) bool {
		return !r.SpecificReservationRequired && c.roomFor(r, zone, p.MachineType, n)
	})
	if i < 0 {
		return nil, nil
	}
	return c.world.reservations[i], nil
}

// roomFor reports whether a reservation fits n machines of a type and has room for them.
func (c *Cloud) roomFor(r *compute.Reservation, zone, machineType string, n int) bool {
	return base(r.Zone) == zone && r.SpecificReservation.InstanceProperties.MachineType == machineType &&
		r.Status == "READY" && int(r.SpecificReservation.Count)-c.inUse(r) >= n
}

// named returns the reservation that a request names.
func (c *Cloud) named(zone, machineType string, a *compute.ReservationAffinity, n int) (*compute.Reservation, *Fault) {
	if a.Key != "compute.googleapis.com/reservation-name" || len(a.Values) != 1 {
		return nil, invalid("Invalid value for field 'resource.reservationAffinity'.")
	}
	for _, r := range c.world.reservations {
		if r.Name != a.Values[0] || base(r.Zone) != zone || !r.SpecificReservationRequired {
			continue
		}
		if c.roomFor(r, zone, machineType, n) {
			return r, nil
		}
		return nil, &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Message: "Specified reservation '" +
			a.Values[0] + "' does not have available resources for the request."}
	}
	return nil, invalid("Specified reservation '%s' does not exist.", a.Values[0])
}

// Commit gives the project a commitment for vCPUs and memory of a machine family in a region. kind is Google's name of
// the family, such as GENERAL_PURPOSE_N2.
func (c *Cloud) Commit(region, name, kind string, vcpus, gib int, until time.Time) *compute.Commitment {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &compute.Commitment{
		Kind: "compute#commitment", Id: c.number(), Name: name, Region: c.link("regions/%s", region), Status: "ACTIVE",
		SelfLink: c.link("regions/%s/commitments/%s", region, name), Type: kind, Category: "MACHINE",
		Plan: "TWELVE_MONTH", EndTimestamp: until.UTC().Format(time.RFC3339),
		Resources: []*compute.ResourceCommitment{
			{Type: "VCPU", Amount: int64(vcpus)}, {Type: "MEMORY", Amount: int64(gib) << 10},
		},
	}
	c.world.commitments = append(c.world.commitments, one)
	return one
}

func (c *Cloud) aggregateCommitments(*call) (any, *Fault) {
	items := map[string]compute.CommitmentsScopedList{}
	for _, one := range c.world.commitments {
		scope := "regions/" + base(one.Region)
		part := items[scope]
		part.Commitments = append(part.Commitments, one)
		items[scope] = part
	}
	return &compute.CommitmentAggregatedList{Kind: "compute#commitmentAggregatedList", Items: items}, nil
}

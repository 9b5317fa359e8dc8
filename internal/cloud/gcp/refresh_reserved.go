package gcp

import (
	"context"
	"strconv"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Reserved reads the capacity that the project already has: reservations of machine types in zones. They are paid for
// whether or not they are used, so using them costs nothing extra. Capacity that machines of others use is deducted;
// capacity that this deployment's machines use is not. Reservations with attached accelerators, local disks or a CPU
// platform are skipped, because no machine launched here fits them.
//
// Source: Compute Engine documentation, "Consume reserved zonal resources".
func Reserved(ctx context.Context, c *Cloud, s *compute.Service) (all []catalog.Reserved, err error) {
	ours, err := consumed(ctx, c, s)
	if err != nil {
		return nil, err
	}
	err = s.Reservations.AggregatedList(c.Project()).MaxResults(500).Pages(ctx,
		func(page *compute.ReservationAggregatedList) error {
			for scope, part := range page.Items {
				zone, ok := strings.CutPrefix(scope, "zones/")
				if !ok || !c.Serves(region(zone)) {
					continue
				}
				for _, r := range part.Reservations {
					if one, ok := reserved(zone, r, ours[zone+"/"+r.Name]); ok {
						all = append(all, one)
					}
				}
			}
			return nil
		})
	return all, err
}

func region(zone string) string { return zone[:max(strings.LastIndexByte(zone, '-'), 0)] }

// reserved converts a reservation for the catalogue; ok is false if no machine of the broker could use it.
func reserved(zone string, r *compute.Reservation, ours int) (one catalog.Reserved, ok bool) {
	specific := r.SpecificReservation
	if r.Status != "READY" || specific == nil || specific.InstanceProperties == nil {
		return one, false
	}
	p := specific.InstanceProperties
	family, _, _ := strings.Cut(p.MachineType, "-")
	if len(p.LocalSsds) > 0 || p.MinCpuPlatform != "" || len(p.GuestAccelerators) > 0 && family == "n1" {
		return one, false
	}
	one = catalog.Reserved{
		Cloud: Name, ID: ReservationID(zone, r.Name, r.SpecificReservationRequired), Region: region(zone),
		Zone: zone, InstanceType: p.MachineType, By: "reservation",
		Count: int(specific.Count-specific.InUseCount) + ours, Total: catalog.Machines(int(specific.Count)),
	}
	if until, err := time.Parse(time.RFC3339, r.DeleteAtTime); err == nil {
		one.Until = until
	}
	return one, true
}

// consumed returns the number of this deployment's machines on each reservation, by zone/name. For an open
// reservation, Google reports which machines the reservation pays for.
func consumed(ctx context.Context, c *Cloud, s *compute.Service) (map[string]int, error) {
	ours := map[string]int{}
	err := eachInstance(ctx, c, s, func(scope string, i *compute.Instance, mine bool) {
		if name := taken(i); name != "" && mine {
			ours[strings.TrimPrefix(scope, "zones/")+"/"+name]++
		}
	})
	return ours, err
}

// eachInstance visits the project's machines with their zone (zones/NAME). mine is true for pending and running
// machines of this deployment.
func eachInstance(ctx context.Context, c *Cloud, s *compute.Service,
	visit func(scope string, i *compute.Instance, mine bool)) error {
	machines, err := c.Machines(ctx, "")
	if err != nil {
		return err
	}
	mine := map[string]bool{}
	for _, m := range machines {
		mine[m.ID] = m.State == cloud.Pending || m.State == cloud.Running
	}
	return s.Instances.AggregatedList(c.Project()).MaxResults(500).Fields("nextPageToken",
		"items/*/instances(id,machineType,status,scheduling,reservationAffinity,resourceStatus)").Pages(ctx,
		func(page *compute.InstanceAggregatedList) error {
			for scope, part := range page.Items {
				for _, i := range part.Instances {
					visit(scope, i, mine[strconv.FormatUint(i.Id, 10)])
				}
			}
			return nil
		})
}

// taken returns the name of the reservation on which a machine runs.
func taken(i *compute.Instance) string {
	if s := i.ResourceStatus; s != nil && s.ReservationConsumptionInfo != nil {
		return last(s.ReservationConsumptionInfo.ConsumedReservation)
	}
	a := i.ReservationAffinity
	if a != nil && a.ConsumeReservationType == "SPECIFIC_RESERVATION" && len(a.Values) == 1 {
		return last(a.Values[0])
	}
	return ""
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// withReserved replaces the catalogue's reservations by the project's current ones.
func (r *Refresher) withReserved(ctx context.Context, s *compute.Service, base *catalog.Catalog,
	now time.Time) (*catalog.Catalog, error) {
	found, err := Reserved(ctx, r.Cloud, s)
	if err != nil {
		return nil, err
	}
	return base.WithAnswer(catalog.CloudAnswer{Cloud: Name, Now: now}, renew.Usable(found))
}

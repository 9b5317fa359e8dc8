package refresh

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/capacity"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
)

// family is the machine family that a type of commitment is for; empty is one of which nothing is planned: those with
// accelerators or disks of their own, and the memory-optimised ones that two families share.
func family(commitment string) string {
	switch commitment {
	case "GENERAL_PURPOSE":
		return "n1"
	case "COMPUTE_OPTIMIZED":
		return "c2"
	}
	for _, kind := range []string{"GENERAL_PURPOSE_", "COMPUTE_OPTIMIZED_", "MEMORY_OPTIMIZED_"} {
		if name, ok := strings.CutPrefix(commitment, kind); ok && !strings.Contains(name, "_") {
			return strings.ToLower(name)
		}
	}
	return ""
}

// committable says whether all that a machine costs may be paid by vCPUs and memory that are committed to: not that of
// shared-core machines, nor local disks and accelerators that come with the type.
func committable(machine string) bool {
	return !slices.Contains([]string{"e2-micro", "e2-small", "e2-medium", "f1-micro", "g1-small"}, machine) &&
		!strings.HasSuffix(machine, "lssd")
}

func familyOf(machine string) string {
	name, _, _ := strings.Cut(machine, "-")
	return name
}

// Committed reads what vCPUs and memory of machine families in regions the project has committed itself to use, of a
// catalogue that knows what these machines have. What is in use by others is not counted: their machines, but not those
// on the spot, and all that is reserved, as Google has commitments pay for reservations whether they are used or not.
// Machines of the deployment are the broker's own count. Of projects that share a commitment only this one is asked.
//
// Source: Compute Engine documentation, "Resource-based committed use discounts".
func Committed(ctx context.Context, c *gcp.Cloud, s *compute.Service, known *catalog.Catalog,
	now time.Time) ([]catalog.Reserved, error) {
	found, err := commitments(ctx, c, s, now)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	sizes := map[string]apitypes.Amount{}
	for o := range known.All() {
		if o.Cloud != gcp.Name || o.Attached {
			continue
		}
		sizes[o.InstanceType] = capacity.TakenBy(o.VCPU, o.MemoryGiB)
		on := found[place{o.Region, familyOf(o.InstanceType)}]
		if on != nil && o.Accelerator == "" && committable(o.InstanceType) {
			on.Commitment.Takes[o.Region+"/"+o.InstanceType] = sizes[o.InstanceType]
		}
	}
	used, err := inUse(ctx, c, s)
	if err != nil {
		return nil, err
	}
	for at, n := range used {
		size, ok := sizes[at.machine]
		if !ok {
			size = custom(at.machine)
		}
		if on := found[place{at.region, familyOf(at.machine)}]; on != nil && committable(at.machine) {
			on.Commitment.Has = on.Commitment.Has.Minus(size.Times(n))
		}
	}
	var all []catalog.Reserved
	for _, on := range slices.Collect(maps.Values(found)) {
		all = append(all, *on)
	}
	return all, nil
}

// place is a family of machines in a region.
type place struct{ region, family string }

// commitments are those in force, with what they are to altogether.
func commitments(ctx context.Context, c *gcp.Cloud, s *compute.Service, now time.Time,
) (map[place]*catalog.Reserved, error) {
	found := map[place]*catalog.Reserved{}
	err := s.RegionCommitments.AggregatedList(c.Project()).MaxResults(500).Pages(ctx,
		func(page *compute.CommitmentAggregatedList) error {
			for scope, part := range page.Items {
				in, ok := strings.CutPrefix(scope, "regions/")
				if !ok || !c.Serves(in) {
					continue
				}
				for _, one := range part.Commitments {
					until, _ := time.Parse(time.RFC3339, one.EndTimestamp)
					if one.Status != "ACTIVE" || family(one.Type) == "" || !until.IsZero() && !until.After(now) {
						continue
					}
					at := place{in, family(one.Type)}
					if found[at] == nil {
						found[at] = &catalog.Reserved{Cloud: gcp.Name, ID: "cud-" + at.family + "-" + in, Region: in,
							Until: until, By: catalog.ByCommittedUse, Commitment: &catalog.Commitment{
								What: at.family + " machines", Takes: map[string]apitypes.Amount{}}}
					}
					found[at].Total = found[at].Total.Plus(amount(one.Resources))
					found[at].Commitment.Has = found[at].Total
					if !until.IsZero() && until.Before(found[at].Until) {
						found[at].Until = until
					}
				}
			}
			return nil
		})
	return found, err
}

// amount is what a commitment is to; memory is in MB there.
func amount(resources []*compute.ResourceCommitment) (sum apitypes.Amount) {
	for _, r := range resources {
		switch r.Type {
		case "VCPU":
			sum.MilliVCPU += 1000 * r.Amount
		case "MEMORY":
			sum.MiB += r.Amount
		}
	}
	return sum
}

// custom is the size of a machine type of one's own: FAMILY-custom-VCPUS-MB, without a family for n1.
func custom(machine string) (size apitypes.Amount) {
	_, rest, ok := strings.Cut(machine, "custom-")
	parts := strings.Split(rest, "-")
	if !ok || len(parts) < 2 {
		return size
	}
	vcpu, _ := strconv.ParseInt(parts[0], 10, 32)
	mib, _ := strconv.ParseInt(parts[1], 10, 32)
	return apitypes.Amount{MilliVCPU: 1000 * vcpu, MiB: mib}
}

// machine is a type in a region.
type machine struct{ region, machine string }

// inUse are how many machines take of commitments, without those of this deployment: what is reserved, and what runs
// beside that.
func inUse(ctx context.Context, c *gcp.Cloud, s *compute.Service) (map[machine]int, error) {
	used := map[machine]int{}
	err := s.Reservations.AggregatedList(c.Project()).MaxResults(500).Pages(ctx,
		func(page *compute.ReservationAggregatedList) error {
			for scope, part := range page.Items {
				for _, r := range part.Reservations {
					if p := r.SpecificReservation; p != nil && p.InstanceProperties != nil && r.Status == "READY" {
						used[machine{region(last(scope)), p.InstanceProperties.MachineType}] += int(p.Count)
					}
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	err = eachInstance(ctx, c, s, func(scope string, i *compute.Instance, mine bool) {
		if taken(i) == "" && !mine && paid(i) {
			used[machine{region(last(scope)), last(i.MachineType)}]++
		}
	})
	return used, err
}

// paid says whether a machine is billed at the price on demand.
func paid(i *compute.Instance) bool {
	spot := i.Scheduling != nil && (i.Scheduling.Preemptible || i.Scheduling.ProvisioningModel == "SPOT")
	return !spot && slices.Contains([]string{"PROVISIONING", "STAGING", "RUNNING", "REPAIRING"}, i.Status)
}

// withCommitted puts what the project has committed itself to in the place of what was known of it.
func (r *Refresher) withCommitted(ctx context.Context, s *compute.Service, base *catalog.Catalog,
	now time.Time) (*catalog.Catalog, error) {
	found, err := Committed(ctx, r.Cloud, s, base, now)
	if err != nil {
		return nil, err
	}
	return base.WithTold(catalog.Told{Cloud: gcp.Name, Plans: true, Now: now}, renew.Left(found))
}

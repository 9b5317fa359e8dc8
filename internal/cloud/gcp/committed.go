package gcp

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// family returns the machine family that a type of commitment is for. It is empty for commitments that are not
// planned on: those with accelerators or disks, and memory-optimised ones that two families share.
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

// committable reports whether commitments to vCPUs and memory can pay for the whole machine. They do not pay for
// shared-core machines, or for local disks and accelerators that come with the type.
func committable(machine string) bool {
	return !slices.Contains([]string{"e2-micro", "e2-small", "e2-medium", "f1-micro", "g1-small"}, machine) &&
		!strings.HasSuffix(machine, "lssd")
}

func familyOf(machine string) string {
	name, _, _ := strings.Cut(machine, "-")
	return name
}

// Committed reads which vCPUs and memory of machine families in regions the project has committed to use. The
// catalogue known provides the sizes of machines. What others use is deducted: their on-demand machines, and all
// reservations, because Google lets commitments pay for reservations whether or not they are used. The broker itself
// counts this deployment's machines. If several projects share a commitment, only the use by this one is deducted.
//
// Source: Compute Engine documentation, "Resource-based committed use discounts".
func Committed(ctx context.Context, c *Cloud, s *compute.Service, known *catalog.Catalog,
	now time.Time) ([]catalog.Reserved, error) {
	found, err := commitments(ctx, c, s, now)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	sizes := map[string]apitypes.Amount{}
	for o := range known.All() {
		if o.Cloud != Name || o.Attached {
			continue
		}
		sizes[o.InstanceType] = catalog.DemandOf(o.VCPU, o.MemoryGiB)
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

// commitments returns the active commitments by family and region, with their total amounts.
func commitments(ctx context.Context, c *Cloud, s *compute.Service, now time.Time,
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
						found[at] = &catalog.Reserved{Cloud: Name, ID: "cud-" + at.family + "-" + in, Region: in,
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

// amount returns the total of a commitment's resources; memory is in MB there.
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

// custom returns the size of a custom machine type: FAMILY-custom-VCPUS-MB, without FAMILY for n1.
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

// machine is a machine type in a region.
type machine struct{ region, machine string }

// inUse counts the use of commitments, without this deployment's machines: reservations, and the machines that run
// outside them.
func inUse(ctx context.Context, c *Cloud, s *compute.Service) (map[machine]int, error) {
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

// paid reports whether a machine is billed at the on-demand price.
func paid(i *compute.Instance) bool {
	spot := i.Scheduling != nil && (i.Scheduling.Preemptible || i.Scheduling.ProvisioningModel == "SPOT")
	return !spot && slices.Contains([]string{"PROVISIONING", "STAGING", "RUNNING", "REPAIRING"}, i.Status)
}

// withCommitted replaces the catalogue's commitments by the project's current ones.
func (r *Refresher) withCommitted(ctx context.Context, s *compute.Service, base *catalog.Catalog,
	now time.Time) (*catalog.Catalog, error) {
	found, err := Committed(ctx, r.Cloud, s, base, now)
	if err != nil {
		return nil, err
	}
	return base.WithAnswer(catalog.CloudAnswer{Cloud: Name, Plans: true, Now: now}, renew.Usable(found))
}

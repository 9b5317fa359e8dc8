package refresh

import (
	"cmp"
	"context"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// The properties of reserved capacity that machines of this deployment can use: Linux, on shared hosts.
const (
	linux  = "Linux/UNIX"
	shared = "default"
)

// Reserved reads the capacity that the account already has in a region: capacity reservations, and reserved
// instances, which pay for machines of their type or, if they are flexible, of their family (for the types that the
// catalogue knows). Both are paid for whether or not they are used, so using them costs nothing extra. Capacity that
// machines of others use is deducted; capacity that this deployment's machines use is not. Capacity that others use
// up is returned as well.
//
// Source: EC2 user guide, "On-Demand Capacity Reservations".
func Reserved(ctx context.Context, c *aws.Cloud, region string, known *catalog.Catalog) ([]catalog.Reserved, error) {
	client := c.EC2(region)
	zones, err := zoneIDs(ctx, client)
	if err != nil {
		return nil, aws.Typed(err)
	}
	running, err := instances(ctx, client, c.Deployment())
	if err != nil {
		return nil, aws.Typed(err)
	}
	active, err := activeReservations(ctx, client)
	if err != nil {
		return nil, aws.Typed(err)
	}
	paid, _, err := reservedInstances(ctx, client, region, zones, payable(running, active))
	if err != nil {
		return nil, aws.Typed(err)
	}
	return append(reservations(active, region, zones, running), covering(paid, region, known)...), nil
}

// zoneIDs returns the IDs of a region's zones by name; a name means a different zone in each account.
func zoneIDs(ctx context.Context, client *ec2.Client) (map[string]string, error) {
	out, err := client.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, z := range out.AvailabilityZones {
		ids[awssdk.ToString(z.ZoneName)] = awssdk.ToString(z.ZoneId)
	}
	return ids, nil
}

// instance is what matters about a running instance.
type instance struct {
	kind, zone  string // the zone by name
	reservation string // the capacity reservation that it runs in
	ours, spot  bool
}

func instances(ctx context.Context, client *ec2.Client, deployment string) (all []instance, err error) {
	state := types.Filter{Name: awssdk.String("instance-state-name"), Values: []string{"pending", "running"}}
	pages := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{Filters: []types.Filter{state}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				one := instance{kind: string(i.InstanceType), reservation: awssdk.ToString(i.CapacityReservationId),
					spot: i.InstanceLifecycle == types.InstanceLifecycleTypeSpot}
				if i.Placement != nil {
					one.zone = awssdk.ToString(i.Placement.AvailabilityZone)
				}
				one.ours = slices.ContainsFunc(i.Tags, func(t types.Tag) bool {
					return awssdk.ToString(t.Key) == aws.TagDeployment && awssdk.ToString(t.Value) == deployment
				})
				all = append(all, one)
			}
		}
	}
	return all, nil
}

func reservations(active []types.CapacityReservation, region string, zones map[string]string,
	running []instance) (all []catalog.Reserved) {
	for _, r := range active {
		one := catalog.Reserved{
			Cloud: aws.Name, ID: awssdk.ToString(r.CapacityReservationId), Region: region,
			Zone:         cmp.Or(awssdk.ToString(r.AvailabilityZoneId), zones[awssdk.ToString(r.AvailabilityZone)]),
			InstanceType: awssdk.ToString(r.InstanceType), Until: awssdk.ToTime(r.EndDate),
			By:    "capacity reservation",
			Count: int(awssdk.ToInt32(r.AvailableInstanceCount)),
			Total: catalog.Machines(int(awssdk.ToInt32(r.TotalInstanceCount))),
		}
		for _, i := range running {
			if i.ours && i.reservation == one.ID {
				one.Count++
			}
		}
		all = append(all, one)
	}
	return all
}

// activeReservations returns the account's reservations in a region for Linux machines on shared hosts.
func activeReservations(ctx context.Context, client *ec2.Client) (all []types.CapacityReservation, err error) {
	pages := ec2.NewDescribeCapacityReservationsPaginator(client, &ec2.DescribeCapacityReservationsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.CapacityReservations {
			if r.State == types.CapacityReservationStateActive && r.Tenancy == shared &&
				string(r.InstancePlatform) == linux {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// reserved replaces the catalogue's reserved capacity of a region by the account's current one.
func (r *Refresher) reserved(ctx context.Context, base *catalog.Catalog, region string) (*catalog.Catalog, error) {
	found, err := Reserved(ctx, r.Cloud, region, base)
	if err != nil {
		return nil, err
	}
	return base.WithAnswer(catalog.CloudAnswer{Cloud: aws.Name, Region: region, Now: r.Now()}, renew.Usable(found))
}

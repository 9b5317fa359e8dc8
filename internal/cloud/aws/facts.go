package aws

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// factsFor is the time for which cached facts of a region are valid.
const factsFor = time.Hour

// facts caches rarely changing facts of a region. Each is read when it is first needed.
type facts struct {
	locks driver.Locks
	mu    sync.Mutex
	known map[string]fact
	owner string // account that owns the machines, once EC2 has returned it
}

// owned records the account that owns a reservation.
func (f *facts) owned(account *string) {
	if account == nil || *account == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner = *account
}

func (f *facts) account() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner
}

type fact struct {
	value any
	until time.Time
}

func newFacts() facts { return facts{known: map[string]fact{}} }

// learn returns a fact. If it is not cached, learn reads it. Only one caller reads at a time; the others wait for its
// result.
func learn[T any](ctx context.Context, r *region, name string, read func(context.Context) (T, error)) (T, error) {
	if v, ok := r.facts.get(name); ok {
		return v.(T), nil
	}
	var none T
	release, err := r.facts.locks.Take(ctx, name)
	if err != nil {
		return none, err
	}
	defer release()
	if v, ok := r.facts.get(name); ok {
		return v.(T), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	v, err := read(ctx)
	if err != nil {
		return none, err
	}
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.known[name] = fact{v, time.Now().Add(factsFor)}
	return v, nil
}

func (f *facts) get(name string) (any, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.known[name]
	return v.value, ok && time.Now().Before(v.until)
}

// doubt clears the cache if a launch failed because something no longer exists.
func (f *facts) doubt(err error) {
	var e *cloud.Error
	if errors.As(err, &e) && strings.HasSuffix(e.Code, ".NotFound") {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.known)
	}
}

// zones returns the IDs of a region's zones by name (us-east-1a: use1-az1). A name means a different zone in each
// account, so the catalogue uses IDs.
func (r *region) zones(ctx context.Context) (map[string]string, error) {
	return learn(ctx, r, "zones", func(ctx context.Context) (map[string]string, error) {
		out, err := r.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
		if err != nil {
			return nil, err
		}
		ids := make(map[string]string, len(out.AvailabilityZones))
		for _, z := range out.AvailabilityZones {
			ids[awssdk.ToString(z.ZoneName)] = awssdk.ToString(z.ZoneId)
		}
		return ids, nil
	})
}

// zoneID returns the ID of the zone that a machine is in.
func (r *region) zoneID(ctx context.Context, p *types.Placement) (string, error) {
	if id := awssdk.ToString(p.AvailabilityZoneId); id != "" {
		return id, nil
	}
	name := awssdk.ToString(p.AvailabilityZone)
	if name == "" {
		return "", nil
	}
	ids, err := r.zones(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(ids[name], name), nil
}

// vpc returns the network for machines: the one tagged for the deployment, otherwise the default one.
func (r *region) vpc(ctx context.Context) (string, error) {
	return learn(ctx, r, "vpc", func(ctx context.Context) (string, error) {
		for _, f := range []types.Filter{filter("tag:"+tagDeployment, r.cloud.cfg.Deployment),
			filter("is-default", "true")} {
			out, err := r.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{f}})
			if err != nil {
				return "", err
			}
			ids := make([]string, len(out.Vpcs))
			for i, v := range out.Vpcs {
				ids[i] = awssdk.ToString(v.VpcId)
			}
			if len(ids) > 0 {
				return slices.Min(ids), nil
			}
		}
		return "", failRegion(cloud.Quota, codeNoVPC, "%s has no default VPC, and none tagged %s=%s. "+
			"Create one: aws ec2 create-default-vpc --region %s", r.name, tagDeployment, r.cloud.cfg.Deployment, r.name)
	})
}

// subnet returns the subnet with the most free addresses in a zone, which is given by ID or name. An empty zone means
// any zone.
func (r *region) subnet(ctx context.Context, zone string) (string, error) {
	vpc, err := r.vpc(ctx)
	if err != nil {
		return "", err
	}
	all, err := learn(ctx, r, "subnets", func(ctx context.Context) ([]types.Subnet, error) {
		out, err := r.ec2.DescribeSubnets(ctx,
			&ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("vpc-id", vpc)}})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(out.Subnets, func(a, b types.Subnet) int {
			return cmp.Or(cmp.Compare(awssdk.ToInt32(b.AvailableIpAddressCount),
				awssdk.ToInt32(a.AvailableIpAddressCount)),
				strings.Compare(awssdk.ToString(a.SubnetId), awssdk.ToString(b.SubnetId)))
		})
		return out.Subnets, nil
	})
	if err != nil {
		return "", err
	}
	ids, err := r.zones(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		name := awssdk.ToString(s.AvailabilityZone)
		if zone == "" || zone == name || zone == ids[name] || zone == awssdk.ToString(s.AvailabilityZoneId) {
			return awssdk.ToString(s.SubnetId), nil
		}
	}
	return "", fail(cloud.Capacity, codeNoSubnet, "network %s has no subnet in zone %s of %s", vpc, zone, r.name)
}

// group returns the security group of the deployment's machines. It allows outgoing connections, and connections
// between these machines, but no others. If it is missing, group creates it, because machines may be in regions
// without the deployment's stack.
func (r *region) group(ctx context.Context) (string, error) {
	vpc, err := r.vpc(ctx)
	if err != nil {
		return "", err
	}
	return learn(ctx, r, "group", func(ctx context.Context) (string, error) {
		id, open, err := r.findGroup(ctx, vpc)
		switch {
		case err != nil || open:
			return id, err
		case id != "": // its creator did not get to opening it
			return id, r.openGroup(ctx, id)
		}
		name := r.groupName()
		made, err := r.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName: &name, VpcId: &vpc,
			Description: awssdk.String("Machines of " + r.cloud.cfg.Deployment + ": all out, each other in"),
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeSecurityGroup,
				Tags:         []types.Tag{tag(tagDeployment, r.cloud.cfg.Deployment), tag("Name", name)},
			}},
		})
		switch {
		case isCode(err, "InvalidGroup.Duplicate"): // another process was faster
			id, _, err = r.findGroup(ctx, vpc)
		case err == nil:
			id = awssdk.ToString(made.GroupId)
		}
		if err != nil {
			return "", err
		}
		if id == "" {
			return "", fail(cloud.Transient, "InvalidGroup.NotFound", "security group %s is not listed yet", name)
		}
		return id, r.openGroup(ctx, id)
	})
}

func (r *region) groupName() string { return r.cloud.cfg.Deployment + "-machines" }

// findGroup returns the group, or "" if there is none. It also returns whether the group's machines can reach each
// other.
func (r *region) findGroup(ctx context.Context, vpc string) (id string, open bool, err error) {
	out, err := r.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("vpc-id", vpc), filter("group-name", r.groupName())},
	})
	if err != nil || len(out.SecurityGroups) == 0 {
		return "", false, err
	}
	g := out.SecurityGroups[0]
	id = awssdk.ToString(g.GroupId)
	return id, slices.ContainsFunc(g.IpPermissions, func(p types.IpPermission) bool {
		return awssdk.ToString(p.IpProtocol) == allProtocols &&
			slices.ContainsFunc(p.UserIdGroupPairs, func(u types.UserIdGroupPair) bool {
				return awssdk.ToString(u.GroupId) == id
			})
	}), nil
}

const allProtocols = "-1"

// openTries limits the retries for a new group that a part of EC2 does not know yet.
const (
	openTries = 4
	openPause = 250 * time.Millisecond
)

// openGroup lets machines of a group reach each other.
func (r *region) openGroup(ctx context.Context, id string) error {
	for n := 1; ; n++ {
		_, err := r.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: &id, IpPermissions: []types.IpPermission{{
				IpProtocol: awssdk.String(allProtocols), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &id}},
			}},
		})
		if isCode(err, "InvalidPermission.Duplicate") {
			return nil
		}
		if n == openTries || !isCode(err, "InvalidGroup.NotFound") {
			return err
		}
		if err := clock.Pause(ctx, openPause<<n); err != nil {
			return err
		}
	}
}

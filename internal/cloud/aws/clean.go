package aws

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

var _ driver.Cleaner = (*Cloud)(nil)

// Clean implements driver.Cleaner: it deletes the security groups of the deployment's machines. It searches every
// region that the account has enabled, because earlier settings may have named other regions. An organization may
// forbid calls to regions outside of the settings, so their lists may fail.
func (c *Cloud) Clean(ctx context.Context, tell func(deleted string)) error {
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	all, err := c.client(c.cfg.Home).ec2.DescribeRegions(call,
		&ec2.DescribeRegionsInput{AllRegions: awssdk.Bool(false)})
	if err != nil {
		return Typed(err)
	}
	var mu sync.Mutex
	return driver.Each(len(all.Regions), maxAtOnce, func(i int) error {
		r := c.client(awssdk.ToString(all.Regions[i].RegionName))
		groups, err := r.groups(ctx)
		if err != nil && !slices.Contains(c.cfg.Regions, r.name) {
			return ctx.Err()
		}
		for _, g := range groups {
			if err = r.deleteGroup(ctx, g.GroupId); err != nil {
				break
			}
			mu.Lock()
			tell("security group " + awssdk.ToString(g.GroupName) + " in " + r.name)
			mu.Unlock()
		}
		if err != nil {
			return fmt.Errorf("security group of the machines in %s: %w", r.name, Typed(err))
		}
		return nil
	})
}

// groups lists the deployment's security groups in a region.
func (r *region) groups(ctx context.Context) (groups []types.SecurityGroup, err error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(r.ec2, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("tag:"+tagDeployment, r.cloud.cfg.Deployment)},
	})
	for pages.HasMorePages() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		groups = append(groups, page.SecurityGroups...)
	}
	return groups, nil
}

// deleteTries limits the tries to delete a group whose last machine has ended, but whose network interface still
// exists.
const (
	deleteTries = 7
	deletePause = 250 * time.Millisecond
)

func (r *region) deleteGroup(ctx context.Context, id *string) error {
	for n := 1; ; n++ {
		call, cancel := context.WithTimeout(ctx, readWithin)
		_, err := r.ec2.DeleteSecurityGroup(call, &ec2.DeleteSecurityGroupInput{GroupId: id})
		cancel()
		switch {
		case isCode(err, "InvalidGroup.NotFound"):
			return nil
		case n == deleteTries || !isCode(err, "DependencyViolation"):
			return err
		}
		if err := clock.Pause(ctx, deletePause<<n); err != nil {
			return err
		}
	}
}

package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// tagDeployment is the tag of everything that a deployment makes.
const tagDeployment = "tradewind:deployment"

// ErrMachines says that machines of a deployment still run: without it nobody would end them.
var ErrMachines = errors.New("deploy: machines of it still run")

// Machines lists those of a deployment that are not terminated, in the target's region.
func (t *Target) Machines(ctx context.Context, name string) ([]string, error) {
	var ids []string
	pages := ec2.NewDescribeInstancesPaginator(ec2.NewFromConfig(t.cfg), &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + tagDeployment), Values: []string{name}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("deploy: machines of %s in %s: %w", name, t.Region, err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				ids = append(ids, aws.ToString(i.InstanceId))
			}
		}
	}
	return ids, nil
}

// Destroy deletes a stack and what the deployment of a name made beside it: the key of its tokens and the security group of its machines. Its table
// and buckets stay where the template says so. It fails with ErrMachines, before anything is changed, while machines run, and with ErrNoStack
// where there is none; then what lies beside it is gone nevertheless.
func (t *Target) Destroy(ctx context.Context, stack, name string) error {
	running, err := t.Machines(ctx, name)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("%w: %s in %s, and %d in all", ErrMachines, running[0], t.Region, len(running))
	}
	gone := t.deleteStack(ctx, stack)
	if gone != nil && !errors.Is(gone, ErrNoStack) {
		return gone
	}
	return errors.Join(gone, t.deleteKey(ctx, name), t.deleteGroups(ctx, name))
}

func (t *Target) deleteStack(ctx context.Context, name string) error {
	is, err := t.describe(ctx, name)
	if err != nil {
		return err
	}
	began := time.Now().Add(-time.Minute) // clocks differ
	seen, err := t.seen(ctx, name)
	if err != nil {
		return err
	}
	if aws.ToBool(is.EnableTerminationProtection) {
		if _, err := t.cfn.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{
			StackName: &name, EnableTerminationProtection: aws.Bool(false),
		}); err != nil {
			return fmt.Errorf("deploy: %s: %w", name, err)
		}
	}
	if _, err := t.cfn.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &name}); err != nil {
		return fmt.Errorf("deploy: %s: %w", name, err)
	}
	// By its ID a stack can be described when it is gone; an emulator may forget it.
	if err := t.follow(ctx, aws.ToString(is.StackId), began, seen); !errors.Is(err, ErrNoStack) {
		return err
	}
	t.tell(Step{What: "stack", Name: name, Status: "DELETE_COMPLETE"})
	return nil
}

func (t *Target) deleteKey(ctx context.Context, name string) error {
	key := "/" + name + "/token-key"
	_, err := ssm.NewFromConfig(t.cfg).DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &key})
	if err != nil && codeOf(err) != "ParameterNotFound" {
		return fmt.Errorf("deploy: parameter %s: %w", key, err)
	}
	return nil
}

// deleteGroups deletes the security group that the functions made for machines.
func (t *Target) deleteGroups(ctx context.Context, name string) error {
	client := ec2.NewFromConfig(t.cfg)
	out, err := client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + tagDeployment), Values: []string{name}},
	}})
	if err != nil {
		return fmt.Errorf("deploy: security groups of %s: %w", name, err)
	}
	for _, g := range out.SecurityGroups {
		// A machine that was terminated a moment ago still holds it.
		if _, err := client.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId}); err != nil {
			return fmt.Errorf("deploy: security group %s of %s, which stays: %w", aws.ToString(g.GroupId), name, err)
		}
		t.tell(Step{What: "security group", Name: aws.ToString(g.GroupName), Status: "done", Physical: aws.ToString(g.GroupId)})
	}
	return nil
}

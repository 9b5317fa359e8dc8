package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
)

// tagDeployment is the tag of everything that a deployment makes.
const tagDeployment = "tradewind:deployment"

// ErrMachines says that machines of a deployment still run: without it nobody would end them.
var ErrMachines = errors.New("deploy: machines of it still run")

// Machines lists those of a deployment that are not terminated, in the target's region.
func (t *Target) Machines(ctx context.Context, name string) ([]string, error) {
	in := url.Values{
		"Filter.1.Name": {"tag:" + tagDeployment}, "Filter.1.Value.1": {name},
		"Filter.2.Name": {"instance-state-name"}, "MaxResults": {"1000"},
	}
	for i, state := range []string{"pending", "running", "stopping", "stopped"} {
		in.Set(fmt.Sprintf("Filter.2.Value.%d", i+1), state)
	}
	var ids []string
	for {
		var out struct {
			IDs  []string `xml:"reservationSet>item>instancesSet>item>instanceId"`
			Next string   `xml:"nextToken"`
		}
		if err := t.ec2(ctx, "DescribeInstances", in, &out); err != nil {
			return nil, fmt.Errorf("deploy: machines of %s in %s: %w", name, t.Region, err)
		}
		ids = append(ids, out.IDs...)
		if out.Next == "" {
			return ids, nil
		}
		in.Set("NextToken", out.Next)
	}
}

// Destroy deletes a stack and what the deployment of a name made beside it: the key of its tokens and the security
// group of its machines. Its table and buckets stay where the template says so. It fails with ErrMachines, before
// anything is changed, while machines run, and with ErrNoStack where there is none; then what lies beside it is gone
// nevertheless.
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
	err := t.ssm(ctx, "DeleteParameter", map[string]string{"Name": key})
	if e := (*plainError)(nil); errors.As(err, &e) && e.code == "ParameterNotFound" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deploy: parameter %s: %w", key, err)
	}
	return nil
}

// deleteGroups deletes the security group that the functions made for machines.
func (t *Target) deleteGroups(ctx context.Context, name string) error {
	var out struct {
		Groups []struct {
			ID   string `xml:"groupId"`
			Name string `xml:"groupName"`
		} `xml:"securityGroupInfo>item"`
	}
	if err := t.ec2(ctx, "DescribeSecurityGroups",
		url.Values{"Filter.1.Name": {"tag:" + tagDeployment}, "Filter.1.Value.1": {name}}, &out); err != nil {
		return fmt.Errorf("deploy: security groups of %s: %w", name, err)
	}
	for _, g := range out.Groups {
		// A machine that was terminated a moment ago still holds it.
		if err := t.ec2(ctx, "DeleteSecurityGroup", url.Values{"GroupId": {g.ID}}, &struct{}{}); err != nil {
			return fmt.Errorf("deploy: security group %s of %s, which stays until --destroy is said again: %w", g.ID,
				name, err)
		}
		t.tell(Step{What: "security group", Name: g.Name, Status: "done", Physical: g.ID})
	}
	return nil
}

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

// tagDeployment is the tag of everything that a deployment creates.
const tagDeployment = "tradewind:deployment"

// ErrMachines means that machines of a deployment still run, which nothing would end without it.
var ErrMachines = errors.New("deploy: its machines still run")

// Machines lists the machines of a deployment that are not terminated, in the target's region.
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

// Destroy deletes a stack and the resources that the deployment created outside of the stack: the key for tokens, the
// security group of machines, and the resources of the drivers of other clouds. The table and buckets stay if the
// template says so. While machines run, Destroy changes nothing and returns ErrMachines. If there is no stack, it
// deletes the rest and returns ErrNoStack.
func (t *Target) Destroy(ctx context.Context, stack, name string) error {
	running, err := t.Machines(ctx, name)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("%w: %s in %s, and %d in all", ErrMachines, running[0], t.Region, len(running))
	}
	if err := t.leaveClouds(ctx, name); err != nil {
		return err
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
	began := time.Now().Add(-time.Minute) // clock skew
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
	// A deleted stack can be described by its ID; an emulator may forget it.
	if err := t.follow(ctx, aws.ToString(is.StackId), began, seen); !errors.Is(err, ErrNoStack) {
		return t.undeleted(ctx, name, aws.ToString(is.StackId), err)
	}
	t.report(Step{What: "stack", Name: name, Status: "DELETE_COMPLETE"})
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

// deleteGroups deletes the security group that the functions created for machines.
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
		// A machine that was just terminated still uses it.
		if err := t.ec2(ctx, "DeleteSecurityGroup", url.Values{"GroupId": {g.ID}}, &struct{}{}); err != nil {
			return fmt.Errorf("deploy: security group %s of %s, which stays until you run --destroy again: %w", g.ID,
				name, err)
		}
		t.report(Step{What: "security group", Name: g.Name, Status: "done", Physical: g.ID})
	}
	return nil
}

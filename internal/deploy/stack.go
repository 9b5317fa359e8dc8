package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// Change is the effect of a change set on one resource.
type Change struct {
	Action      string   `json:"action"`                // Add, Modify, Remove, Import
	ID          string   `json:"id"`                    // in the template
	Type        string   `json:"type"`                  // AWS::SQS::Queue
	Physical    string   `json:"physical,omitempty"`    // its name in the account
	Replacement string   `json:"replacement,omitempty"` // True, False, Conditional
	Properties  []string `json:"properties,omitempty"`  // changed properties
}

// ChangeSet is the difference between the deployed stack and its new template.
type ChangeSet struct {
	Stack   string   `json:"stack"`
	Name    string   `json:"-"`
	New     bool     `json:"new"` // the stack does not exist yet
	Changes []Change `json:"changes"`

	discarded bool // because there is nothing to change
}

// Errors of a stack.
var (
	ErrNoStack = errors.New("deploy: no such stack")
	ErrFailed  = errors.New("deploy: the stack could not be changed")
	ErrBusy    = errors.New("deploy: the stack is being changed by another process")
)

// describe returns a stack, or ErrNoStack.
func (t *Target) describe(ctx context.Context, name string) (*types.Stack, error) {
	out, err := t.cfn.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if codeOf(err) == "ValidationError" && strings.Contains(err.Error(), "does not exist") {
		return nil, fmt.Errorf("%w: %s", ErrNoStack, name)
	}
	if err != nil {
		return nil, fmt.Errorf("deploy: stack %s: %w", name, err)
	}
	if len(out.Stacks) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoStack, name)
	}
	return &out.Stacks[0], nil
}

// Outputs returns the outputs of a deployed stack, or ErrNoStack.
func (t *Target) Outputs(ctx context.Context, name string) (map[string]string, error) {
	s, err := t.describe(ctx, name)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, o := range s.Outputs {
		out[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return out, nil
}

// Plan makes a change set. It imports tables and buckets that an earlier deployment of this name left behind. A change
// set without changes is not an error; it has been discarded.
func (t *Target) Plan(ctx context.Context, s Stack) (*ChangeSet, error) {
	is, err := t.describe(ctx, s.Name)
	if err != nil && !errors.Is(err, ErrNoStack) {
		return nil, err
	}
	set := &ChangeSet{Stack: s.Name, Name: fmt.Sprintf("tradewind-%d", time.Now().UnixNano()), New: is == nil,
		Changes: []Change{}}
	if is != nil {
		switch status := string(is.StackStatus); {
		case status == string(types.StackStatusReviewInProgress): // a change set of a stack that was never created
			set.New = true
		case status == string(types.StackStatusRollbackComplete):
			return nil, fmt.Errorf(
				"%w: %s could not be created the last time; run --destroy to remove its remains, then deploy again",
				ErrFailed, s.Name)
		case strings.HasSuffix(status, "_IN_PROGRESS"):
			return nil, fmt.Errorf("%w: %s is in %s", ErrBusy, s.Name, status)
		}
	}
	kind := types.ChangeSetTypeUpdate
	if set.New {
		kind = types.ChangeSetTypeCreate
	}
	_, err = t.cfn.CreateChangeSet(ctx, &cloudformation.CreateChangeSetInput{
		StackName: &s.Name, ChangeSetName: &set.Name, ChangeSetType: kind,
		TemplateURL:             aws.String(t.templateURL(s.Template)),
		Capabilities:            []types.Capability{types.CapabilityCapabilityNamedIam},
		ImportExistingResources: aws.Bool(true),
		Description:             aws.String("tradewind deploy"),
		Tags:                    []types.Tag{{Key: aws.String("tradewind:deployment"), Value: aws.String(s.Name)}},
	})
	if err != nil {
		return nil, fmt.Errorf("deploy: change set of %s: %w", s.Name, err)
	}
	return set, t.await(ctx, set)
}

// templateURL returns the URL from which CloudFormation reads the template. It works for emulators as well.
func (t *Target) templateURL(a Asset) string {
	return "https://" + t.resolve(a.Bucket) + ".s3." + t.Region + ".amazonaws.com/" + a.Key
}

// await waits for a change set and reads it.
func (t *Target) await(ctx context.Context, set *ChangeSet) error {
	for {
		var next *string
		var out *cloudformation.DescribeChangeSetOutput
		set.Changes = set.Changes[:0]
		for {
			var err error
			out, err = t.cfn.DescribeChangeSet(ctx, &cloudformation.DescribeChangeSetInput{
				StackName: &set.Stack, ChangeSetName: &set.Name, NextToken: next,
			})
			if err != nil {
				return fmt.Errorf("deploy: change set of %s: %w", set.Stack, err)
			}
			set.read(out.Changes)
			if next = out.NextToken; next == nil {
				break
			}
		}
		switch out.Status {
		case types.ChangeSetStatusCreateComplete:
			return nil
		case types.ChangeSetStatusFailed:
			reason := aws.ToString(out.StatusReason)
			if strings.Contains(reason, "didn't contain changes") ||
				strings.Contains(reason, "No updates are to be performed") {
				set.discarded = true
				return t.Discard(ctx, set)
			}
			return errors.Join(fmt.Errorf("%w: %s: %s", ErrFailed, set.Stack, reason), t.Discard(ctx, set))
		}
		if err := clock.Pause(ctx, t.look()); err != nil {
			return err
		}
	}
}

func (c *ChangeSet) read(changes []types.Change) {
	for _, ch := range changes {
		r := ch.ResourceChange
		if r == nil {
			continue
		}
		one := Change{
			Action: string(r.Action), ID: aws.ToString(r.LogicalResourceId), Type: aws.ToString(r.ResourceType),
			Physical: aws.ToString(r.PhysicalResourceId), Replacement: string(r.Replacement),
		}
		for _, d := range r.Details {
			if d.Target != nil && aws.ToString(d.Target.Name) != "" &&
				!slices.Contains(one.Properties, *d.Target.Name) {
				one.Properties = append(one.Properties, *d.Target.Name)
			}
		}
		c.Changes = append(c.Changes, one)
	}
}

// Discard deletes a change set, and the stack as well if it was never created.
func (t *Target) Discard(ctx context.Context, set *ChangeSet) error {
	_, err := t.cfn.DeleteChangeSet(ctx,
		&cloudformation.DeleteChangeSetInput{StackName: &set.Stack, ChangeSetName: &set.Name})
	if err == nil && set.New {
		_, err = t.cfn.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &set.Stack})
	}
	if err != nil {
		return fmt.Errorf("deploy: change set of %s: %w", set.Stack, err)
	}
	return nil
}

// Execute executes a change set and waits until it has finished, reporting each resource. CloudFormation rolls back if
// a resource fails; the error is ErrFailed with the first cause.
func (t *Target) Execute(ctx context.Context, set *ChangeSet, protect bool) error {
	began := time.Now().Add(-time.Minute) // clock skew
	seen, err := t.seen(ctx, set.Stack)
	if err != nil {
		return err
	}
	if _, err := t.cfn.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{StackName: &set.Stack,
		ChangeSetName: &set.Name}); err != nil {
		return fmt.Errorf("deploy: %s: %w", set.Stack, err)
	}
	if err := t.follow(ctx, set.Stack, began, seen); err != nil {
		return err
	}
	_, err = t.cfn.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{
		StackName: &set.Stack, EnableTerminationProtection: &protect,
	})
	if err != nil && statusOf(err) != 404 && codeOf(err) != "NotImplemented" && statusOf(err) < 500 {
		return fmt.Errorf("deploy: %s: %w", set.Stack, err)
	}
	return nil
}

// seen returns the IDs of the stack's events so far.
func (t *Target) seen(ctx context.Context, stack string) (map[string]bool, error) {
	seen := map[string]bool{}
	list, err := t.events(ctx, stack)
	for _, e := range list {
		seen[aws.ToString(e.EventId)] = true
	}
	return seen, err
}

// events returns the newest events of a stack, the oldest first.
func (t *Target) events(ctx context.Context, stack string) ([]types.StackEvent, error) {
	out, err := t.cfn.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &stack})
	if err != nil {
		if codeOf(err) == "ValidationError" {
			return nil, nil
		}
		return nil, fmt.Errorf("deploy: events of %s: %w", stack, err)
	}
	slices.Reverse(out.StackEvents)
	return out.StackEvents, nil
}

// follow waits until a stack is no longer changing.
func (t *Target) follow(ctx context.Context, stack string, since time.Time, seen map[string]bool) error {
	first := "" // the first failure is the cause
	for {
		s, err := t.describe(ctx, stack)
		if err != nil {
			return err
		}
		list, err := t.events(ctx, aws.ToString(s.StackId))
		if err != nil {
			return err
		}
		for _, e := range list {
			id, status := aws.ToString(e.EventId), string(e.ResourceStatus)
			if seen[id] || e.Timestamp != nil && e.Timestamp.Before(since) {
				continue
			}
			seen[id] = true
			step := Step{
				At: aws.ToTime(e.Timestamp), What: "resource", Name: aws.ToString(e.LogicalResourceId),
				Type: aws.ToString(e.ResourceType), Status: status, Reason: aws.ToString(e.ResourceStatusReason),
				Physical: aws.ToString(e.PhysicalResourceId),
			}
			t.report(step)
			if first == "" && strings.HasSuffix(status, "_FAILED") && !strings.Contains(step.Reason, "cancelled") {
				first = fmt.Sprintf("%s (%s): %s", step.Name, step.Type, step.Reason)
			}
		}
		switch status := string(s.StackStatus); {
		case status == "CREATE_COMPLETE" || status == "UPDATE_COMPLETE" || status == "IMPORT_COMPLETE":
			t.report(Step{What: "stack", Name: stack, Status: status})
			return nil
		case status == "DELETE_COMPLETE":
			return fmt.Errorf("%w: %s", ErrNoStack, stack)
		case !strings.HasSuffix(status, "_IN_PROGRESS"):
			if first == "" {
				first = aws.ToString(s.StackStatusReason)
			}
			return fmt.Errorf("%w: %s is in %s: %s", ErrFailed, stack, status, first)
		}
		if err := clock.Pause(ctx, t.look()); err != nil {
			return err
		}
	}
}

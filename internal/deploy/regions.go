package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// NoticesStack is the name of a deployment's stack in an additional region.
func NoticesStack(name, region string) string { return name + "-notices-" + region }

// Dropped returns the additional regions of the deployed stack that an assembly does not have any more.
func (t *Target) Dropped(ctx context.Context, a *Assembly) ([]string, error) {
	out, err := t.Outputs(ctx, a.Stacks[0].Name)
	if errors.Is(err, ErrNoStack) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keep := []string{t.Region}
	for _, s := range a.Stacks {
		keep = append(keep, s.Region)
	}
	return slices.DeleteFunc(strings.FieldsFunc(out["Regions"], func(r rune) bool { return r == ',' }),
		func(region string) bool { return slices.Contains(keep, region) }), nil
}

// CheckDropped returns ErrMachines if machines of a deployment still run in a region that it drops: the broker would
// neither see nor end them any more.
func (t *Target) CheckDropped(ctx context.Context, name string, regions []string) error {
	for _, region := range regions {
		running, err := t.In(region).Machines(ctx, name)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			return fmt.Errorf("%w: %s in %s, and %d in all: the broker ends them only while --regions names %s",
				ErrMachines, running[0], region, len(running), region)
		}
	}
	return nil
}

// Drop deletes the stack of a deployment in a region that it does not name any more. Its bucket stays if the deployment
// keeps its data.
func (t *Target) Drop(ctx context.Context, name, region string) error {
	err := t.In(region).Destroy(ctx, NoticesStack(name, region), name)
	if errors.Is(err, ErrNoStack) { // deleted by hand
		return nil
	}
	return err
}

// DropSet is the change set of Drop, for display.
func DropSet(name, region string) *ChangeSet {
	stack := NoticesStack(name, region)
	return &ChangeSet{Stack: stack, Changes: []Change{
		{Action: "Remove", ID: stack, Type: "AWS::CloudFormation::Stack"}}}
}

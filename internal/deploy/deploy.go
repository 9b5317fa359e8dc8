package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrData means that a change would remove records or files of a deployment.
var ErrData = errors.New("deploy: it would lose data")

// dataResourceTypes returns the types of resources that contain data.
func dataResourceTypes() []string { return []string{"AWS::DynamoDB::Table", "AWS::S3::Bucket"} }

// LostResources lists the data resources that a change set would remove or replace.
func (c *ChangeSet) LostResources() []Change {
	var out []Change
	for _, ch := range c.Changes {
		if slices.Contains(dataResourceTypes(), ch.Type) && (ch.Action == "Remove" || ch.Replacement == "True") {
			out = append(out, ch)
		}
	}
	return out
}

// Deploy updates a stack to its template, and uploads the agents from a folder of assets unless that is empty. It
// returns the changes. If these would lose data, it changes nothing and returns ErrData. It returns ErrFailed if
// CloudFormation rolled back, and ErrBusy if the stack is being changed.
func (t *Target) Deploy(ctx context.Context, s Stack, assets string) (*ChangeSet, error) {
	s, err := t.named(s)
	if err != nil {
		return nil, err
	}
	if err := t.Upload(ctx, s); err != nil {
		return nil, err
	}
	set, err := t.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	if lost := set.LostResources(); len(lost) > 0 {
		err := fmt.Errorf("%w: %s of %s would be replaced or removed", ErrData, lost[0].ID, s.Name)
		return set, errors.Join(err, t.Discard(ctx, set))
	}
	// Existing functions use the new agent from the moment they are changed.
	if !set.New {
		if err := t.agents(ctx, s, assets); err != nil {
			return set, errors.Join(err, t.discardOpen(ctx, set))
		}
	}
	if !set.Empty() {
		if err := t.Execute(ctx, set, s.Protected); err != nil {
			return set, err
		}
	}
	if set.New {
		return set, t.agents(ctx, s, assets)
	}
	return set, nil
}

// Empty reports whether there is nothing to change; the change set was then discarded.
func (c *ChangeSet) Empty() bool { return c.discarded }

func (t *Target) discardOpen(ctx context.Context, set *ChangeSet) error {
	if set.Empty() {
		return nil
	}
	return t.Discard(ctx, set)
}

// WorkBucket returns the name of the bucket for outputs, checkpoints and agents, which is derived from the
// deployment's.
func (t *Target) WorkBucket(name string) string {
	return fmt.Sprintf("%s-work-%s-%s", name, t.Account, t.Region)
}

func (t *Target) agents(ctx context.Context, s Stack, assets string) error {
	if assets == "" {
		return nil
	}
	return t.UploadAgents(ctx, assets, t.WorkBucket(s.Name))
}

// Diff returns the changes that Deploy would make. It uploads the template and its assets, which nothing uses yet.
func (t *Target) Diff(ctx context.Context, s Stack) (*ChangeSet, error) {
	s, err := t.named(s)
	if err != nil {
		return nil, err
	}
	if err := t.Upload(ctx, s); err != nil {
		return nil, err
	}
	set, err := t.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	return set, t.discardOpen(ctx, set)
}

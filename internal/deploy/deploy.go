package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrData says that a change would take the records or files of a deployment away.
var ErrData = errors.New("deploy: it would lose data")

// keepers are the types of resource that hold what cannot be made again.
func keepers() []string { return []string{"AWS::DynamoDB::Table", "AWS::S3::Bucket"} }

// Loses lists what a change set would remove or replace of what holds data.
func (c *ChangeSet) Loses() []Change {
	var out []Change
	for _, ch := range c.Changes {
		if slices.Contains(keepers(), ch.Type) && (ch.Action == "Remove" || ch.Replacement == "True") {
			out = append(out, ch)
		}
	}
	return out
}

// Deploy brings a stack to where its template says, with the agents that its machines fetch below a folder of assets;
// no agents when that is empty. It returns what was changed. It fails with ErrData before anything is changed if that
// would lose any, with ErrFailed if CloudFormation rolled it back, and with ErrBusy.
func (t *Target) Deploy(ctx context.Context, s Stack, assets string) (*ChangeSet, error) {
	if err := t.Upload(ctx, s); err != nil {
		return nil, err
	}
	set, err := t.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	if lost := set.Loses(); len(lost) > 0 {
		err := fmt.Errorf("%w: %s of %s would be replaced or removed", ErrData, lost[0].ID, s.Name)
		return set, errors.Join(err, t.Discard(ctx, set))
	}
	// Functions that are there already name the new agent from the moment they are changed.
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

// Empty says that there is nothing to change; the set was discarded then.
func (c *ChangeSet) Empty() bool { return c.discarded }

func (t *Target) discardOpen(ctx context.Context, set *ChangeSet) error {
	if set.Empty() {
		return nil
	}
	return t.Discard(ctx, set)
}

// WorkBucket is where a deployment keeps outputs, checkpoints and the agents: its name follows from the deployment's.
func (t *Target) WorkBucket(name string) string {
	return fmt.Sprintf("%s-work-%s-%s", name, t.Account, t.Region)
}

func (t *Target) agents(ctx context.Context, s Stack, assets string) error {
	if assets == "" {
		return nil
	}
	return t.UploadAgents(ctx, assets, t.WorkBucket(s.Name))
}

// Diff says what Deploy would change. It uploads the template and what it refers to, which nothing uses yet.
func (t *Target) Diff(ctx context.Context, s Stack) (*ChangeSet, error) {
	if err := t.Upload(ctx, s); err != nil {
		return nil, err
	}
	set, err := t.Plan(ctx, s)
	if err != nil {
		return nil, err
	}
	return set, t.discardOpen(ctx, set)
}

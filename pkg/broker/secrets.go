package broker

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/secret"
)

// Secrets seals what jobs keep to themselves, and opens it for their agents (pkg/secret).
type Secrets interface {
	Seal(ctx context.Context, job string, values map[string]string) ([]byte, error)
	Open(ctx context.Context, job string, sealed []byte, names []string) (map[string]string, error)
}

// seal seals a job's secrets. It fails with a *dag.Error for one that cannot be had.
func (b *Users) seal(ctx context.Context, id string, spec *dag.Job, values dag.SecretValues) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if b.ports.Secrets == nil {
		return nil, spec.SecretError(spec.SecretNames()[0], "this broker keeps no secrets", "")
	}
	sealed, err := b.ports.Secrets.Seal(ctx, id, values)
	var refused *secret.Refused
	switch {
	case errors.As(err, &refused) && errors.Is(err, secret.ErrReference):
		return nil, spec.SecretError(refused.Name, refused.Err.Error(), "")
	case errors.As(err, &refused) && ctx.Err() == nil: // where it is kept could not be asked
		return nil, spec.SecretError(refused.Name, "cannot be fetched: "+refused.Err.Error(),
			"hand the job in again if that may pass, else look at what the broker logs in there with")
	case errors.Is(err, secret.ErrLarge):
		return nil, spec.SecretError(spec.SecretNames()[0], err.Error(),
			"encrypt what is large, and make its key the secret")
	}
	return sealed, err
}

// handOut opens the secrets of a task for its agent. One that cannot be had any more fails the task, in the words of
// where it is kept.
func (b *Agents) handOut(u *unit.Unit, job record.Job, cl record.Cluster, t *dag.Task, a *wire.Assignment) error {
	if len(t.Secrets) == 0 {
		return nil
	}
	kept, found, err := attempt.SecretsOf(u, job, cl)
	if err != nil {
		return err
	}
	if !found || b.ports.Secrets == nil {
		return record.ErrGone // the job is over
	}
	a.Secrets, err = b.ports.Secrets.Open(u.Ctx, job.ID, kept.Sealed, t.Secrets)
	if errors.Is(err, secret.ErrReference) || errors.Is(err, secret.ErrSealed) {
		a.Refused, err = err.Error(), nil
	}
	return err
}

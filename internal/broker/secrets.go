package broker

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Secrets encrypts the secrets of jobs, and decrypts them for their agents (internal/secret).
type Secrets interface {
	Seal(ctx context.Context, job string, values map[string]string) ([]byte, error)
	Open(ctx context.Context, job string, sealed []byte, names []string) (map[string]string, error)
}

// seal encrypts a job's secrets. It fails with a *dag.Error for a secret that is not available.
func (b *Users) seal(ctx context.Context, id string, spec *dag.Job, values dag.SecretValues) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if b.ports.Secrets == nil {
		return nil, spec.SecretError(spec.SecretNames()[0], "this broker cannot store secrets", "")
	}
	sealed, err := b.ports.Secrets.Seal(ctx, id, values)
	var refused *secret.Unavailable
	switch {
	case errors.As(err, &refused) && errors.Is(err, secret.ErrUnavailable):
		return nil, spec.SecretError(refused.Name, refused.Err.Error(), "")
	case errors.As(err, &refused) && ctx.Err() == nil: // the secret manager could not be reached
		return nil, spec.SecretError(refused.Name, "cannot be fetched: "+refused.Err.Error(),
			"submit the job again if the failure may be temporary; otherwise check the broker's credentials there")
	case errors.Is(err, secret.ErrLarge):
		return nil, spec.SecretError(spec.SecretNames()[0], err.Error(),
			"encrypt the large value, and make its key the secret")
	}
	return sealed, err
}

// openSecrets decrypts the secrets of a task for its agent. If a secret is not available any more, the task fails
// with the secret manager's own message.
func (b *Agents) openSecrets(u *txn.Unit, job record.Job, cl record.Cluster, t *dag.Task, a *wire.Assignment) error {
	if len(t.Secrets) == 0 {
		return nil
	}
	kept, found, err := attempt.SecretsOf(u, job, cl)
	if err != nil {
		return err
	}
	if !found || b.ports.Secrets == nil {
		return record.ErrGone // the job has finished
	}
	a.Secrets, err = b.ports.Secrets.Open(u.Ctx, job.ID, kept.Sealed, t.Secrets)
	if errors.Is(err, secret.ErrUnavailable) || errors.Is(err, secret.ErrDecrypt) {
		a.Refused, err = err.Error(), nil
	}
	return err
}

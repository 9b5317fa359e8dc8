package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Loader loads what several functions decide on.
type Loader struct {
	*Transactor
	cfg Config
}

// spec loads a job's DAG. It is shared: it must not be changed.
func (b *Loader) spec(ctx context.Context, j Job) (*dag.Job, error) {
	return b.newUnit(ctx, "load").spec(j)
}

// plan loads a job's plan in force. It is shared: it must not be changed.
func (b *Loader) plan(ctx context.Context, j Job) (*Plan, error) {
	return b.newUnit(ctx, "load").plan(j)
}

package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Loader loads what several functions decide on. It keeps nothing but a cache of what never changes.
type Loader struct {
	*Transactor
	cfg   Config
	blobs *blobs
}

// blobCacheBytes holds the specs and plans of a 10,000-task job several times over.
const blobCacheBytes = 64 << 20

func newLoader(t *Transactor, cfg Config) *Loader {
	return &Loader{Transactor: t, cfg: cfg, blobs: newBlobs(blobCacheBytes)}
}

// spec loads a job's DAG. It is shared: it must not be changed.
func (b *Loader) spec(ctx context.Context, j Job) (*dag.Job, error) {
	return cached[dag.Job](ctx, b.store, b.blobs, j.ID, j.Spec)
}

// plan loads a job's plan in force. It is shared: it must not be changed.
func (b *Loader) plan(ctx context.Context, j Job) (*Plan, error) {
	return cached[Plan](ctx, b.store, b.blobs, j.ID, j.Plan)
}

// bids loads what was bid for a job's plan. It is shared: it must not be changed.
func (b *Loader) bids(ctx context.Context, j Job) (*Bids, error) {
	return cached[Bids](ctx, b.store, b.blobs, j.ID, j.Bids)
}

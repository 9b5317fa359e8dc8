package broker

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Loader loads what several functions decide on.
type Loader struct {
	*Transactor
	cfg Config
}

// blobCacheBytes holds the specs and plans of a 10,000-task job several times over.
const blobCacheBytes = 64 << 20

// newLoader makes a loader on a store, by a clock.
func newLoader(s store.Store, clock func() time.Time, cfg Config) *Loader {
	nothing := func(*unit) {}
	return &Loader{cfg: cfg, Transactor: &Transactor{
		store: s, kept: newKept(blobCacheBytes), clock: clock, seenFor: cfg.SeenFor, committed: nothing, conflicted: nothing,
	}}
}

// spec loads a job's DAG. It is shared: it must not be changed.
func (b *Loader) spec(ctx context.Context, j Job) (*dag.Job, error) {
	return b.newUnit(ctx, "load").spec(j)
}

// plan loads a job's plan in force. It is shared: it must not be changed.
func (b *Loader) plan(ctx context.Context, j Job) (*Plan, error) {
	return b.newUnit(ctx, "load").plan(j)
}

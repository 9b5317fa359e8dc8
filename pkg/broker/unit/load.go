package unit

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Loader loads what several functions decide on.
type Loader struct {
	*Transactor
	Config record.Config
}

// blobCacheBytes is what specs and plans may take once they are decoded: of a job of 10,000 tasks several times over.
const blobCacheBytes = 32 << 20

// NewLoader makes a loader on a store, by a clock.
func NewLoader(s store.Store, clock func() time.Time, cfg record.Config) *Loader {
	nothing := func(*Unit) {}
	return &Loader{Config: cfg, Transactor: &Transactor{
		Store: s, kept: book.NewKept(blobCacheBytes), clock: clock, seenFor: cfg.SeenFor, Done: nothing,
		Conflicted: nothing,
	}}
}

// ActiveJobs lists the jobs that are not over.
func (b *Loader) ActiveJobs(ctx context.Context) ([]string, error) {
	u := b.NewUnit(ctx, events.FnReconcile)
	index, err := book.List[record.JobIndex](u, record.PartActive, "", 0)
	ids := make([]string, len(index))
	for i, j := range index {
		ids[i] = j.ID
	}
	return ids, err
}

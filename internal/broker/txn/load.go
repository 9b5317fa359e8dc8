package txn

import (
	"context"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
)

// ActiveJobs lists the jobs that have not finished.
func (b *Transactor) ActiveJobs(ctx context.Context) ([]string, error) {
	u := b.NewUnit(ctx, events.FnReconcile)
	index, err := recordcache.List[record.JobIndex](u, record.PartActive, "", 0)
	ids := make([]string, len(index))
	for i, j := range index {
		ids[i] = j.ID
	}
	return ids, err
}

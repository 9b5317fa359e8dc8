package unit

import (
	"context"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// ActiveJobs lists the jobs that are not over.
func (b *Transactor) ActiveJobs(ctx context.Context) ([]string, error) {
	u := b.NewUnit(ctx, events.FnReconcile)
	index, err := book.List[record.JobIndex](u, record.PartActive, "", 0)
	ids := make([]string, len(index))
	for i, j := range index {
		ids[i] = j.ID
	}
	return ids, err
}

package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Idle says that no job is open and no event waits to be published, so that a host may stop looking.
func (b *Broker) Idle(ctx context.Context) (bool, error) {
	open, err := book.List[record.JobIndex](b.NewUnit(ctx, events.FnReconcile), record.PartActive, "", 1)
	if err != nil || len(open) > 0 {
		return false, err
	}
	pending, err := b.Store.Outbox(ctx, 1)
	return len(pending) == 0, err
}

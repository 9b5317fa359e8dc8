package broker

import (
	"context"

	"github.com/tradewind-broker/tradewind/events"
)

// Idle says that no job is open and no event waits to be published, so that a host may stop looking.
func (b *Broker) Idle(ctx context.Context) (bool, error) {
	open, err := list[JobIndex](b.newUnit(ctx, events.FnReconcile), partActive, "", 1)
	if err != nil || len(open) > 0 {
		return false, err
	}
	pending, err := b.store.Outbox(ctx, 1)
	return len(pending) == 0, err
}

package broker

import "context"

// Relay publishes up to a batch of events from the outbox, and returns how many it published: see outbox.Relay.
func (b *Functions) Relay(ctx context.Context) (int, error) { return b.relay.Once(ctx) }

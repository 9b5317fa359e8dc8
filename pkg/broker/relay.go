package broker

import "context"

// Relay publishes what is in the outbox, up to a batch, and returns how many events it published: see outbox.Relay.
func (b *Functions) Relay(ctx context.Context) (int, error) { return b.relay.Once(ctx) }

package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// relayBatch bounds one round of the relay.
const relayBatch = 500

// Relay publishes what lies in the outbox and returns how many events it published. An event is removed from the
// outbox after it was published, so a crash between publishes it twice, never not at all.
func (b *Broker) Relay(ctx context.Context) (int, error) {
	pending, err := b.Store.Outbox(ctx, relayBatch)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	if err := b.publish(ctx, pending); err != nil {
		return 0, err
	}
	ids := make([]string, 0, len(pending))
	for _, p := range pending {
		ids = append(ids, p.ID)
	}
	if err := b.Store.Published(ctx, ids...); err != nil {
		return 0, fmt.Errorf("broker: mark published: %w", err)
	}
	return len(ids), nil
}

// publish puts events on the bus.
func (b *Broker) publish(ctx context.Context, pending []store.Event) error {
	messages := make([]bus.Message, 0, len(pending))
	for _, p := range pending {
		m := bus.Message{ID: p.ID, Type: "unknown", Body: p.Body}
		if e, err := events.Parse(p.Body); err == nil {
			m.Type, m.Group = e.Type(), e.Data.Group()
		} else if !errors.Is(err, events.ErrUnknownType) {
			b.log.Error("relay: an event in the outbox cannot be read; it goes to the dead letters", "id", p.ID,
				"err", err)
		}
		if err := m.Validate(); err != nil { // no bus takes it, and all others would wait behind it for ever
			b.log.Error("relay: no bus takes an event in the outbox; cut, it goes to the dead letters",
				"id", p.ID, "type", m.Type, "err", err)
			m = bus.Message{ID: p.ID, Type: "unknown", Body: p.Body[:min(len(p.Body), bus.MaxMessageBytes)]}
		}
		messages = append(messages, m)
	}
	if err := b.Bus.Publish(ctx, messages...); err != nil {
		return fmt.Errorf("broker: publish: %w", err)
	}
	return nil
}

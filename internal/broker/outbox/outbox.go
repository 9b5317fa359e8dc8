// Package outbox publishes the events that transactions leave in a store's outbox. It uses no other part of the
// broker, so a process that only relays events links nothing else.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// batch is the maximum number of events that Once publishes.
const batch = 500

// Store is the part of store.Store that a Relay needs.
type Store interface {
	Outbox(ctx context.Context, limit int) ([]store.Event, error)
	Published(ctx context.Context, ids ...string) error
}

// Publisher is the part of bus.Bus that a Relay needs.
type Publisher interface {
	Publish(ctx context.Context, messages ...bus.Message) error
}

// Relay moves events from an outbox to a bus. It is safe for concurrent use.
type Relay struct {
	Store Store
	Bus   Publisher
	Log   *slog.Logger
}

// Once publishes up to 500 events, and returns their number. It removes an event from the outbox only after it was
// published. A crash in between publishes the event twice, but never loses it.
func (r Relay) Once(ctx context.Context) (int, error) {
	pending, err := r.Store.Outbox(ctx, batch)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	if err := r.Publish(ctx, pending); err != nil {
		return 0, err
	}
	ids := make([]string, 0, len(pending))
	for _, p := range pending {
		ids = append(ids, p.ID)
	}
	if err := r.Store.Published(ctx, ids...); err != nil {
		return 0, fmt.Errorf("broker: mark published: %w", err)
	}
	return len(ids), nil
}

// All publishes until the outbox is empty. It returns the number of published events, even if it fails.
func (r Relay) All(ctx context.Context) (published int, err error) {
	for {
		n, err := r.Once(ctx)
		if published += n; err != nil || n == 0 {
			return published, err
		}
	}
}

// Publish publishes events on the bus, and does not read or change the outbox. An event that is too large for a bus
// is cut. No function can read the cut event, so it becomes a dead letter.
func (r Relay) Publish(ctx context.Context, pending []store.Event) error {
	messages := make([]bus.Message, 0, len(pending))
	for _, p := range pending {
		m := bus.Message{ID: p.ID, Type: "unknown", Body: p.Body}
		if e, err := events.Parse(p.Body); err == nil {
			m.Type, m.Group = e.Type(), e.Data.Group()
		} else if !errors.Is(err, events.ErrUnknownType) {
			r.Log.Error("relay: an event in the outbox cannot be read; it goes to the dead letters", "id", p.ID,
				"err", err)
		}
		if err := m.Validate(); err != nil { // no bus accepts it, and all others would wait behind it forever
			r.Log.Error("relay: no bus takes an event in the outbox; a shortened copy goes to the dead letters",
				"id", p.ID, "type", m.Type, "err", err)
			m = bus.Message{ID: p.ID, Type: "unknown", Body: p.Body[:min(len(p.Body), bus.MaxMessageBytes)]}
		}
		messages = append(messages, m)
	}
	if err := r.Bus.Publish(ctx, messages...); err != nil {
		return fmt.Errorf("broker: publish: %w", err)
	}
	return nil
}

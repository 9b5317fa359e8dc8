package lambdahost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// leftAfter is how long an event lies in the outbox before somebody else than the relay publishes it. The stream brings
// it to the relay within a second, so what is older was lost on the way, or tried in vain.
const leftAfter = 30 * time.Second

// Leftovers is the part of reconcile that publishes what the relay left in the outbox, before anything else that
// follows a batch.
func Leftovers(h *Host) error {
	next := h.After
	h.After = func(ctx context.Context) error {
		n, err := h.PublishLeft(ctx)
		if n > 0 {
			h.count.published.Add(int64(n))
			h.log.WarnContext(ctx, "published what the relay had left in the outbox", "events", n)
		}
		if next != nil {
			err = errors.Join(err, next(ctx))
		}
		return err
	}
	return nil
}

// PublishLeft publishes the events that have been in the outbox for too long, and returns how many.
func (h *Host) PublishLeft(ctx context.Context) (published int, err error) {
	ports := h.Ports
	ports.Store = oldOnly{Store: h.Ports.Store, before: h.now().Add(-leftAfter)}
	relay := broker.New(h.Config, ports)
	for {
		n, err := relay.Functions.Relay(ctx)
		if published += n; err != nil || n == 0 {
			return published, err
		}
	}
}

// oldOnly is a store whose outbox shows only what was committed before a time. What nobody can read has no time, and is
// shown: it becomes a dead letter.
type oldOnly struct {
	store.Store
	before time.Time
}

// Outbox implements store.Store.
func (s oldOnly) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	all, err := s.Store.Outbox(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("lambdahost: leftovers: %w", err)
	}
	var old []store.Event
	for _, pending := range all {
		if e, err := events.Parse(pending.Body); err != nil || e.Time.Before(s.before) {
			old = append(old, pending)
		}
	}
	return old, nil
}

package lambdahost

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// leftAfter is how long an event may be in the outbox before reconcile publishes it instead of the relay. The stream
// brings it to the relay within a second, so an older one was lost or could not be published.
const leftAfter = 30 * time.Second

// PublishLeft publishes events that have been in the outbox for too long. It runs after each batch of reconcile.
func (s *Sandbox) PublishLeft(ctx context.Context) error {
	n, err := s.relay(oldOnly{Store: s.Store, before: s.Now().Add(-leftAfter)}).All(ctx)
	if n > 0 {
		s.count.published.Add(int64(n))
		s.Log.WarnContext(ctx, "published events that the relay had left in the outbox", "events", n)
	}
	return err
}

// oldOnly is a store whose outbox returns only events committed before a time. An unreadable event has no time and is
// always returned; it becomes a dead letter.
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

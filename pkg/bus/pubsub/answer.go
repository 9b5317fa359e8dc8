package pubsub

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/internal/driver"
)

// Ack implements bus.Bus.
func (b *Bus) Ack(ctx context.Context, name string, receipts ...string) error {
	return b.queues.Ack(ctx, name, receipts...)
}

// Nack implements bus.Bus.
func (b *Bus) Nack(ctx context.Context, name, receipt, reason string) error {
	return b.queues.Nack(ctx, name, receipt, reason)
}

// Reject implements bus.Bus.
func (b *Bus) Reject(ctx context.Context, name, receipt, reason string) error {
	return b.queues.Reject(ctx, name, receipt, reason)
}

// Extend implements bus.Bus.
func (b *Bus) Extend(ctx context.Context, name, receipt string) error {
	return b.queues.Extend(ctx, name, receipt)
}

// service implements driver.Service with the calls of a bus.
type service struct{ b *Bus }

// Remove implements driver.Service.
func (s service) Remove(ctx context.Context, q bus.QueueConfig, handles []string) ([]string, error) {
	if err := s.b.ack(ctx, q.Name, handles...); err != nil {
		return handles, err
	}
	return nil, nil
}

// Retry implements driver.Service.
func (s service) Retry(ctx context.Context, q bus.QueueConfig, d driver.Delivered[*pubsubpb.PubsubMessage]) error {
	wait := time.Duration(0) // the retry policy determines the wait
	if s.b.cfg.HoldBackoff {
		wait = q.Backoff(d.Attempt)
	}
	return s.b.hide(ctx, q.Name, d.Handle, wait)
}

// Hide implements driver.Service.
func (s service) Hide(ctx context.Context, q bus.QueueConfig, handle string) (time.Duration, error) {
	hidden := min(max(q.Visibility, minDeadline), maxDeadline)
	return hidden, s.b.hide(ctx, q.Name, handle, hidden)
}

// Bury implements driver.Service.
func (s service) Bury(ctx context.Context, q bus.QueueConfig, d driver.Delivered[*pubsubpb.PubsubMessage],
	reason string) error {
	return s.b.bury(ctx, q, d.Handle, d.Content, letter{reason: reason, attempts: d.Attempt, at: s.b.clock.Now()})
}

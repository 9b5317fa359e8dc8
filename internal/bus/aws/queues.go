package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// transport is the cloud service that holds a bus's queues. C is the type of a delivery's content.
type transport[C any] interface {
	// Remove removes messages of a queue by their handles. It returns the handles that may not have been removed, and
	// the error.
	Remove(ctx context.Context, q bus.QueueConfig, handles []string) (left []string, err error)
	// Retry makes a message visible again after the queue's back-off.
	Retry(ctx context.Context, q bus.QueueConfig, d delivered[C]) error
	// Hide hides a message for another visibility time-out, and returns that time.
	Hide(ctx context.Context, q bus.QueueConfig, handle string) (time.Duration, error)
	// Bury moves a message to the dead letters.
	Bury(ctx context.Context, q bus.QueueConfig, d delivered[C], reason string) error
}

// queues are the queues of a bus and its deliveries. Its methods implement those of bus.Bus that answer deliveries.
type queues[C any] struct {
	lifetime
	Held    deliveries[C]
	service transport[C]
	clock   clock.Clock
	configs map[string]bus.QueueConfig
}

// newQueues returns the queues of a bus.
func newQueues[C any](configs []bus.QueueConfig, c clock.Clock, s transport[C]) *queues[C] {
	q := &queues[C]{lifetime: newLife(), service: s, clock: c, configs: make(map[string]bus.QueueConfig, len(configs))}
	for _, config := range configs {
		q.configs[config.Name] = config
	}
	return q
}

// Config returns the rules of a queue.
func (s *queues[C]) Config(name string) (bus.QueueConfig, error) {
	q, ok := s.configs[name]
	if !ok {
		return q, fmt.Errorf("%w: %q", bus.ErrUnknownQueue, name)
	}
	return q, nil
}

// Enter is Begin for a call about a queue. It also returns the queue's rules.
func (s *queues[C]) Enter(ctx context.Context, what, name string) (context.Context, bus.QueueConfig, func(*error),
	error) {
	ctx, end, err := s.Begin(ctx, what)
	if err != nil {
		return nil, bus.QueueConfig{}, nil, err
	}
	q, err := s.Config(name)
	if err != nil {
		end(&err)
	}
	return ctx, q, end, err
}

// Ack implements bus.Bus.
func (s *queues[C]) Ack(ctx context.Context, name string, receipts ...string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "ack", name)
	if err != nil {
		return err
	}
	defer end(&err)
	var old error
	var handles []string
	undo := make(map[string]func())
	for _, r := range receipts {
		d, back, over, err := s.Held.Take(name, r, gone)
		switch {
		case err == nil:
			handles = append(handles, d.Handle)
			undo[d.Handle] = back
		case !over && old == nil:
			old = err
		}
	}
	left, err := s.service.Remove(ctx, q, handles)
	for _, h := range left {
		undo[h]()
	}
	return errors.Join(old, err)
}

// Nack implements bus.Bus.
func (s *queues[C]) Nack(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "nack", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, undo, _, err := s.Held.Take(name, receipt, answered)
	if err != nil {
		return err
	}
	if d.Attempt >= q.MaxAttempts {
		return s.deadLetter(ctx, q, receipt, d, undo, reason)
	}
	err = s.service.Retry(ctx, q, d)
	if err != nil && !errors.Is(err, bus.ErrStaleReceipt) {
		undo()
	}
	return err
}

// Reject implements bus.Bus.
func (s *queues[C]) Reject(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "reject", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, undo, _, err := s.Held.Take(name, receipt, gone)
	if err != nil {
		return err
	}
	return s.deadLetter(ctx, q, receipt, d, undo, reason)
}

// deadLetter moves a delivery to the dead letters. On failure it calls undo, unless the receipt is stale.
func (s *queues[C]) deadLetter(ctx context.Context, q bus.QueueConfig, receipt string, d delivered[C], undo func(),
	reason string) error {
	if err := s.service.Bury(ctx, q, d, reason); err != nil {
		if !errors.Is(err, bus.ErrStaleReceipt) {
			undo()
		}
		return err
	}
	s.Held.Set(q.Name, receipt, gone)
	return nil
}

// Extend implements bus.Bus.
func (s *queues[C]) Extend(ctx context.Context, name, receipt string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "extend", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, _, _, err := s.Held.Take(name, receipt, open)
	if err != nil {
		return err
	}
	hidden, err := s.service.Hide(ctx, q, d.Handle)
	switch {
	case errors.Is(err, bus.ErrStaleReceipt):
		s.Held.Set(name, receipt, answered)
	case err == nil:
		now := s.clock.Now()
		s.Held.Extend(name, receipt, now, now.Add(hidden))
	}
	return err
}

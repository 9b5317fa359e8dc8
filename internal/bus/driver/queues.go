package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Service is the cloud service that holds a bus's queues. C is the type of a delivery's content.
type Service[C any] interface {
	// Remove removes messages of a queue by their handles. It returns the handles that may not have been removed, and
	// the error.
	Remove(ctx context.Context, q bus.QueueConfig, handles []string) (left []string, err error)
	// Retry makes a message visible again after the queue's back-off.
	Retry(ctx context.Context, q bus.QueueConfig, d Delivered[C]) error
	// Hide hides a message for another visibility time-out, and returns how long that is.
	Hide(ctx context.Context, q bus.QueueConfig, handle string) (time.Duration, error)
	// Bury moves a message to the dead letters.
	Bury(ctx context.Context, q bus.QueueConfig, d Delivered[C], reason string) error
}

// Queues are the queues of a bus and its deliveries. Its methods implement those of bus.Bus that answer deliveries.
type Queues[C any] struct {
	Lifetime
	Held    Deliveries[C]
	service Service[C]
	clock   clock.Clock
	configs map[string]bus.QueueConfig
}

// NewQueues returns the queues of a bus.
func NewQueues[C any](configs []bus.QueueConfig, c clock.Clock, s Service[C]) *Queues[C] {
	q := &Queues[C]{Lifetime: NewLife(), service: s, clock: c, configs: make(map[string]bus.QueueConfig, len(configs))}
	for _, config := range configs {
		q.configs[config.Name] = config
	}
	return q
}

// Config returns the rules of a queue.
func (s *Queues[C]) Config(name string) (bus.QueueConfig, error) {
	q, ok := s.configs[name]
	if !ok {
		return q, fmt.Errorf("%w: %q", bus.ErrUnknownQueue, name)
	}
	return q, nil
}

// Enter is Begin for a call about a queue. It also returns the queue's rules.
func (s *Queues[C]) Enter(ctx context.Context, what, name string) (context.Context, bus.QueueConfig, func(*error),
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
func (s *Queues[C]) Ack(ctx context.Context, name string, receipts ...string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "ack", name)
	if err != nil {
		return err
	}
	defer end(&err)
	var old error
	var handles []string
	undo := make(map[string]func())
	for _, r := range receipts {
		d, back, over, err := s.Held.Take(name, r, Gone)
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
func (s *Queues[C]) Nack(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "nack", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, undo, _, err := s.Held.Take(name, receipt, Answered)
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
func (s *Queues[C]) Reject(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "reject", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, undo, _, err := s.Held.Take(name, receipt, Gone)
	if err != nil {
		return err
	}
	return s.deadLetter(ctx, q, receipt, d, undo, reason)
}

// deadLetter moves a delivery to the dead letters. On failure it calls undo, unless the receipt is stale.
func (s *Queues[C]) deadLetter(ctx context.Context, q bus.QueueConfig, receipt string, d Delivered[C], undo func(),
	reason string) error {
	if err := s.service.Bury(ctx, q, d, reason); err != nil {
		if !errors.Is(err, bus.ErrStaleReceipt) {
			undo()
		}
		return err
	}
	s.Held.Set(q.Name, receipt, Gone)
	return nil
}

// Extend implements bus.Bus.
func (s *Queues[C]) Extend(ctx context.Context, name, receipt string) (err error) {
	ctx, q, end, err := s.Enter(ctx, "extend", name)
	if err != nil {
		return err
	}
	defer end(&err)
	d, _, _, err := s.Held.Take(name, receipt, Open)
	if err != nil {
		return err
	}
	hidden, err := s.service.Hide(ctx, q, d.Handle)
	switch {
	case errors.Is(err, bus.ErrStaleReceipt):
		s.Held.Set(name, receipt, Answered)
	case err == nil:
		now := s.clock.Now()
		s.Held.Extend(name, receipt, now, now.Add(hidden))
	}
	return err
}

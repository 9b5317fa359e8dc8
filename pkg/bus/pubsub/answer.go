package pubsub

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/internal/driver"
)

// Ack implements bus.Bus.
func (b *Bus) Ack(ctx context.Context, name string, receipts ...string) (err error) {
	ctx, end, err := b.life.Begin(ctx, "ack")
	if err != nil {
		return err
	}
	defer end(&err)
	q, err := b.queue(name)
	if err != nil {
		return err
	}
	var old error
	var handles []string
	var undo []func()
	for _, r := range receipts {
		d, back, over, err := b.held.Take(q.Name, r, driver.Gone)
		switch {
		case err == nil:
			handles, undo = append(handles, d.Handle), append(undo, back)
		case !over && old == nil:
			old = err
		}
	}
	if err := b.ack(ctx, q.Name, handles...); err != nil {
		for _, back := range undo {
			back()
		}
		return errors.Join(old, err)
	}
	return old
}

// Nack implements bus.Bus.
func (b *Bus) Nack(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, end, err := b.life.Begin(ctx, "nack")
	if err != nil {
		return err
	}
	defer end(&err)
	q, err := b.queue(name)
	if err != nil {
		return err
	}
	d, undo, _, err := b.held.Take(q.Name, receipt, driver.Answered)
	if err != nil {
		return err
	}
	if d.Attempt >= q.MaxAttempts {
		return b.giveUp(ctx, q, receipt, d, undo, reason)
	}
	wait := time.Duration(0) // the policy's
	if b.cfg.HoldBackoff {
		wait = q.Backoff(d.Attempt)
	}
	if err := b.hide(ctx, q.Name, d.Handle, wait); err != nil {
		undo()
		return err
	}
	return nil
}

// Reject implements bus.Bus.
func (b *Bus) Reject(ctx context.Context, name, receipt, reason string) (err error) {
	ctx, end, err := b.life.Begin(ctx, "reject")
	if err != nil {
		return err
	}
	defer end(&err)
	q, err := b.queue(name)
	if err != nil {
		return err
	}
	d, undo, _, err := b.held.Take(q.Name, receipt, driver.Gone)
	if err != nil {
		return err
	}
	return b.giveUp(ctx, q, receipt, d, undo, reason)
}

func (b *Bus) giveUp(ctx context.Context, q bus.QueueConfig, receipt string,
	d driver.Delivered[*pubsubpb.PubsubMessage], undo func(), reason string) error {
	if err := b.bury(ctx, q, d.Handle, d.Content,
		letter{reason: reason, attempts: d.Attempt, at: b.clock.Now()}); err != nil {
		undo()
		return err
	}
	b.held.Set(q.Name, receipt, driver.Gone)
	return nil
}

// Extend implements bus.Bus.
func (b *Bus) Extend(ctx context.Context, name, receipt string) (err error) {
	ctx, end, err := b.life.Begin(ctx, "extend")
	if err != nil {
		return err
	}
	defer end(&err)
	q, err := b.queue(name)
	if err != nil {
		return err
	}
	d, _, _, err := b.held.Take(q.Name, receipt, driver.Open)
	if err != nil {
		return err
	}
	hidden := min(max(q.Visibility, minDeadline), maxDeadline)
	if err := b.hide(ctx, q.Name, d.Handle, hidden); err != nil {
		return err
	}
	now := b.clock.Now()
	b.held.Extend(q.Name, receipt, now, now.Add(hidden))
	return nil
}

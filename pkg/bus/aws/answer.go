package aws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

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
	undo := make(map[string]func())
	for _, r := range receipts {
		d, back, over, err := b.held.Take(q.Name, r, driver.Gone)
		switch {
		case err == nil:
			handles = append(handles, d.Handle)
			undo[d.Handle] = back
		case !over && old == nil:
			old = err
		}
	}
	left, err := b.delete(ctx, b.queueName(q.Name), handles)
	for _, h := range left {
		undo[h]()
	}
	return errors.Join(old, err)
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
	err = b.hide(ctx, b.queueName(q.Name), d.Handle, q.Backoff(d.Attempt))
	if err != nil && !errors.Is(err, bus.ErrStaleReceipt) {
		undo()
	}
	return err
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

// giveUp moves a delivery to the dead letters. One that has timed out may be another's by now: SQS is asked before a
// letter is written.
func (b *Bus) giveUp(ctx context.Context, q bus.QueueConfig, receipt string, d driver.Delivered[string], undo func(),
	reason string) error {
	if !b.clock.Now().Before(d.Until) {
		if err := b.hide(ctx, b.queueName(q.Name), d.Handle, q.Visibility); err != nil {
			if !errors.Is(err, bus.ErrStaleReceipt) {
				undo()
			}
			return err
		}
	}
	r := Received{ReceiptHandle: d.Handle, Body: d.Content, Attempt: d.Attempt}
	if err := b.bury(ctx, q, r, reason); err != nil {
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
	err = b.hide(ctx, b.queueName(q.Name), d.Handle, q.Visibility)
	switch {
	case errors.Is(err, bus.ErrStaleReceipt):
		b.held.Set(q.Name, receipt, driver.Answered)
	case err == nil:
		now := b.clock.Now()
		b.held.Extend(q.Name, receipt, now, now.Add(q.Visibility))
	}
	return err
}

// hide changes for how long from now a message is hidden.
func (b *Bus) hide(ctx context.Context, queue, handle string, d time.Duration) error {
	url, err := b.url(ctx, queue)
	if err != nil {
		return err
	}
	err = b.retry(ctx, func() (bool, error) {
		_, err := b.cfg.SQS.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: url, ReceiptHandle: &handle, VisibilityTimeout: seconds(d, maxVisibility),
		})
		return true, err
	})
	var api smithy.APIError
	if errors.As(err, &api) && stale(api.ErrorCode(), api.ErrorMessage()) {
		return fmt.Errorf("%w: %s", bus.ErrStaleReceipt, api.ErrorMessage())
	}
	return err
}

// remove deletes one message.
func (b *Bus) remove(ctx context.Context, queue, handle string) error {
	_, err := b.delete(ctx, b.queueName(queue), []string{handle})
	if errors.Is(err, bus.ErrStaleReceipt) {
		return nil // it was another's, who sees to it
	}
	return err
}

// delete removes messages of a queue, by its SQS name, for good. It returns the handles that may not have been, with
// why; of those that SQS does not take it says bus.ErrStaleReceipt, and the others are removed all the same.
func (b *Bus) delete(ctx context.Context, queue string, handles []string) (left []string, err error) {
	if len(handles) == 0 {
		return nil, nil
	}
	url, err := b.url(ctx, queue)
	if err != nil {
		return handles, err
	}
	var old error
	for batch := range batches(handles, func(string) int { return 0 }) {
		entries := make([]types.DeleteMessageBatchRequestEntry, len(batch))
		for i := range batch {
			id := strconv.Itoa(i)
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: &batch[i]}
		}
		err := b.retry(ctx, func() (bool, error) {
			out, err := b.cfg.SQS.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: entries})
			if err != nil {
				return true, err
			}
			entries, err = failed(entries, func(e types.DeleteMessageBatchRequestEntry) string {
				return *e.Id
			}, out.Failed,
				func(_ types.DeleteMessageBatchRequestEntry, e *entryError) bool {
					if stale(e.code, e.message) {
						old = fmt.Errorf("%w: %s", bus.ErrStaleReceipt, e.message)
						return true
					}
					return false
				})
			return len(entries) == 0, err
		})
		if err != nil {
			for _, e := range entries {
				left = append(left, *e.ReceiptHandle)
			}
			old = errors.Join(old, err)
		}
	}
	return left, old
}

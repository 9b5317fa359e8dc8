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

// service is the SQS of a bus as a transport.
type service struct{ b *Bus }

// Remove implements transport.
func (s service) Remove(ctx context.Context, q bus.QueueConfig, handles []string) ([]string, error) {
	return s.b.delete(ctx, s.b.queueName(q.Name), handles)
}

// Retry implements transport.
func (s service) Retry(ctx context.Context, q bus.QueueConfig, d delivered[string]) error {
	return s.b.hide(ctx, s.b.queueName(q.Name), d.Handle, q.Backoff(d.Attempt))
}

// Hide implements transport.
func (s service) Hide(ctx context.Context, q bus.QueueConfig, handle string) (time.Duration, error) {
	return q.Visibility, s.b.hide(ctx, s.b.queueName(q.Name), handle, q.Visibility)
}

// Bury implements transport. If the delivery's visibility time-out has passed, another consumer may have received the
// message. Bury then first hides the message again. If SQS rejects the receipt, Bury returns bus.ErrStaleReceipt and
// writes no dead letter.
func (s service) Bury(ctx context.Context, q bus.QueueConfig, d delivered[string], reason string) error {
	if !s.b.clock.Now().Before(d.Until) {
		if _, err := s.Hide(ctx, q, d.Handle); err != nil {
			return err
		}
	}
	return s.b.deadLetter(ctx, q, Received{ReceiptHandle: d.Handle, Body: d.Content, Attempt: d.Attempt}, reason)
}

// hide makes a message invisible to consumers for d, counted from now.
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
		return nil // another consumer has the message and will handle it
	}
	return err
}

// delete removes messages from a queue, given by its SQS name. It returns the handles that may not have been removed,
// and the error. If SQS rejects a receipt, delete returns bus.ErrStaleReceipt, but still removes the others.
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
			entries, err = failedBatchEntries(entries, func(e types.DeleteMessageBatchRequestEntry) string {
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

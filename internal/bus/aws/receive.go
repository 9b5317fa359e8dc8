package aws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

const (
	maxPoll       = 20 * time.Second // maximum wait of an SQS receive
	maxVisibility = 12 * time.Hour
)

// Received is an SQS message as SQS or Lambda delivers it.
type Received struct {
	MessageID     string
	ReceiptHandle string
	Body          string
	Attempt       int // ApproximateReceiveCount
}

// Receive implements bus.Bus.
func (b *Bus) Receive(ctx context.Context, name string, limit int, wait time.Duration) (_ []bus.Delivery, err error) {
	ctx, q, end, err := b.queues.Enter(ctx, "receive", name)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if limit <= 0 {
		return nil, nil
	}
	until := b.clock.Now().Add(wait)
	for {
		deliveries, err := b.receiveBatches(ctx, q, limit, until)
		if len(deliveries) > 0 || err != nil {
			return deliveries, err
		}
		if !b.clock.Now().Before(until) {
			return nil, nil
		}
	}
}

// receiveBatches receives once, and again as long as SQS returns full batches and limit is not reached.
func (b *Bus) receiveBatches(
	ctx context.Context,
	q bus.QueueConfig,
	limit int,
	until time.Time,
) (out []bus.Delivery, err error) {
	for wait := until.Sub(b.clock.Now()); len(out) < limit; wait = 0 {
		n := min(limit-len(out), maxBatch)
		messages, err := b.poll(ctx, q, n, wait)
		if err != nil {
			return out, dropIfAny(out, err)
		}
		var failure error
		for i := range messages {
			r := received(&messages[i])
			d, ok, err := b.adopt(ctx, q, r)
			switch {
			case err != nil:
				failure = errors.Join(err, b.hide(ctx, b.queueName(q.Name), r.ReceiptHandle, q.Backoff(r.Attempt)))
			case ok:
				out = append(out, d)
			}
		}
		if failure != nil {
			return out, dropIfAny(out, failure)
		}
		if len(messages) < n {
			break
		}
	}
	return out, nil
}

// dropIfAny drops an error if there are messages to deliver. They are already hidden, so they must be delivered.
func dropIfAny(out []bus.Delivery, err error) error {
	if len(out) > 0 {
		return nil
	}
	return err
}

func received(m *types.Message) Received {
	attempt, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || attempt < 1 {
		attempt = 1
	}
	return Received{MessageID: deref(m.MessageId), ReceiptHandle: deref(m.ReceiptHandle), Body: deref(m.Body),
		Attempt: attempt}
}

// poll is one receive. SQS waits in whole seconds; poll itself waits for a fraction of a second.
func (b *Bus) poll(ctx context.Context, q bus.QueueConfig, n int, wait time.Duration) ([]types.Message, error) {
	url, err := b.url(ctx, b.queueName(q.Name))
	if err != nil {
		return nil, err
	}
	in := &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: int32(n), VisibilityTimeout: seconds(q.Visibility, maxVisibility), //nolint:gosec // at most 10
		WaitTimeSeconds: int32(min(max(wait, 0), maxPoll) / time.Second), //nolint:gosec // at most 20
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount},
	}
	var out *sqs.ReceiveMessageOutput
	err = b.retry(ctx, func() (bool, error) {
		out, err = b.cfg.SQS.ReceiveMessage(ctx, in)
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if len(out.Messages) == 0 && wait > 0 && wait < time.Second {
		if err := b.clock.After(ctx, b.clock.Now().Add(wait)); err != nil {
			return nil, err
		}
		return b.poll(ctx, q, n, 0)
	}
	return out.Messages, nil
}

// Adopt makes a delivery of a message that another receiver (Lambda, for its function) got from a queue. The delivery
// can be answered as if Receive had returned it. ok is false if there is nothing to handle: the message came too
// early and was sent again with the rest of its delay, or it is unreadable and was moved to the dead letters. In both
// cases it is removed from the queue. After an error, the message should be delivered again.
func (b *Bus) Adopt(ctx context.Context, name string, r Received) (d bus.Delivery, ok bool, err error) {
	ctx, q, end, err := b.queues.Enter(ctx, "adopt", name)
	if err != nil {
		return d, false, err
	}
	defer end(&err)
	return b.adopt(ctx, q, r)
}

func (b *Bus) adopt(ctx context.Context, q bus.QueueConfig, r Received) (bus.Delivery, bool, error) {
	now := b.clock.Now()
	m, err := b.read(ctx, []byte(r.Body))
	switch {
	case errors.Is(err, ErrUnreadable):
		return bus.Delivery{}, false, b.deadLetter(ctx, q, r, err.Error())
	case err != nil:
		return bus.Delivery{}, false, err
	case m.NotBefore.After(now):
		return bus.Delivery{}, false, b.postpone(ctx, q, r, m.NotBefore.Sub(now))
	}
	receipt := b.queues.Held.Add(q.Name, r.MessageID, delivered[string]{
		Attempt: r.Attempt, Handle: r.ReceiptHandle, Content: r.Body, Until: now.Add(q.Visibility),
	}, now)
	return bus.Delivery{Message: m, Receipt: receipt, Attempt: r.Attempt}, true, nil
}

// read converts the body of an SQS message to a message.
func (b *Bus) read(ctx context.Context, body []byte) (bus.Message, error) {
	e, err := Decode(body)
	switch {
	case err != nil:
		return bus.Message{}, err
	case e.Kind != External:
		return b.Load(ctx, e)
	case b.cfg.Translate == nil:
		return e.Foreign.message(), nil
	}
	m, err := b.cfg.Translate(e.Foreign)
	if err != nil {
		return m, fmt.Errorf("%w: %s of %s: %w", ErrUnreadable, e.Foreign.DetailType, e.Foreign.Source, err)
	}
	return m, nil
}

// message returns the event as a message, unchanged.
func (f *Foreign) message() bus.Message {
	return bus.Message{ID: f.ID, Type: f.DetailType, Group: f.Source, Body: f.Raw}
}

// postpone sends a message again with the rest of its delay.
func (b *Bus) postpone(ctx context.Context, q bus.QueueConfig, r Received, left time.Duration) error {
	if err := b.send(ctx, b.queueName(q.Name), []send{{body: r.Body, delay: left}}); err != nil {
		return err
	}
	return b.remove(ctx, q.Name, r.ReceiptHandle)
}

// deadLetter moves a message to its queue's dead letters.
func (b *Bus) deadLetter(ctx context.Context, q bus.QueueConfig, r Received, reason string) error {
	l := &letter{reason: reason, attempts: r.Attempt, at: b.clock.Now()}
	if err := b.send(ctx, b.deadName(q.Name), []send{{body: r.Body, letter: l}}); err != nil {
		return err
	}
	return b.remove(ctx, q.Name, r.ReceiptHandle)
}

package pubsub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/internal/driver"
)

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
		left := until.Sub(b.clock.Now())
		messages, err := b.pull(ctx, b.cfg.subscription(name), limit, left)
		if err != nil {
			return nil, err
		}
		var out []bus.Delivery
		for _, m := range messages {
			d, ok, aerr := b.adopt(ctx, q, m)
			if err = errors.Join(err, aerr); ok {
				out = append(out, d)
			}
		}
		switch {
		case len(out) > 0: // Pub/Sub delivers the failed ones again
			return out, nil
		case err != nil:
			return nil, err
		case left <= 0 && len(messages) == 0:
			return nil, nil
		}
	}
}

// pull makes one pull, which waits for the first message at most for the given time.
func (b *Bus) pull(ctx context.Context, subscription string, limit int,
	wait time.Duration) ([]*pubsubpb.ReceivedMessage, error) {
	in := &pubsubpb.PullRequest{Subscription: subscription, MaxMessages: int32(min(limit, maxPull))} //nolint:gosec // at most 1000
	call := ctx
	if wait > 0 {
		var cancel context.CancelFunc
		call, cancel = context.WithTimeout(ctx, b.clock.Wall(wait))
		defer cancel()
	} else {
		// It is deprecated because it asks only a few of Google's servers. That suits a caller that does not wait.
		in.ReturnImmediately = true //nolint:staticcheck // see above
	}
	out, err := b.cfg.Subscriptions.Pull(call, in)
	switch {
	case err == nil:
		return out.GetReceivedMessages(), nil
	case ctx.Err() == nil && call.Err() != nil, status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil:
		return nil, nil // no message arrived in time
	}
	return nil, err
}

// adopt converts a pulled message to a delivery. ok is false if the consumer does not get it.
func (b *Bus) adopt(ctx context.Context, q bus.QueueConfig,
	r *pubsubpb.ReceivedMessage) (d bus.Delivery, ok bool, err error) {
	p, attempt := r.GetMessage(), max(1, int(r.GetDeliveryAttempt()))
	now := b.clock.Now()
	m, err := decode(p)
	delayed := !m.NotBefore.IsZero() && p.GetAttributes()[attrDue] == ""
	switch {
	case err != nil:
		return d, false,
			b.bury(ctx, q, r.GetAckId(), p, letter{reason: "unreadable: " + err.Error(), attempts: attempt, at: now})
	case m.NotBefore.After(now):
		return d, false, b.postpone(ctx, q, r, m.NotBefore.Sub(now))
	case delayed && attempt > 1: // the consumer did not see the earlier attempts
		return d, false, b.replace(ctx, q, r, map[string]string{attrDue: "1"})
	case attempt > q.MaxAttempts:
		reason := fmt.Sprintf("no answer within %v of delivery %d, the last", q.Visibility, attempt-1)
		return d, false, b.bury(ctx, q, r.GetAckId(), p, letter{reason: reason, attempts: attempt - 1, at: now})
	}
	hidden := min(max(q.Visibility, minDeadline), maxDeadline)
	receipt := b.queues.Held.Add(q.Name, p.GetMessageId(), driver.Delivered[*pubsubpb.PubsubMessage]{
		Attempt: attempt, Handle: r.GetAckId(), Content: p, Until: now.Add(hidden),
	}, now)
	return bus.Delivery{Message: m, Receipt: receipt, Attempt: attempt}, true, nil
}

// postpone hides a message that is not due yet. Before the policy would give the message up, a copy replaces it.
func (b *Bus) postpone(ctx context.Context, q bus.QueueConfig, r *pubsubpb.ReceivedMessage, left time.Duration) error {
	if r.GetDeliveryAttempt() >= policyAttempts(q)-1 {
		return b.replace(ctx, q, r, nil)
	}
	return b.hide(ctx, q.Name, r.GetAckId(), left)
}

// replace replaces a message by a copy whose deliveries are counted from zero.
func (b *Bus) replace(ctx context.Context, q bus.QueueConfig, r *pubsubpb.ReceivedMessage,
	set map[string]string) error {
	if err := b.put(ctx, topicName, []*pubsubpb.PubsubMessage{copyOf(r.GetMessage(), set)}); err != nil {
		return err
	}
	return b.ack(ctx, q.Name, r.GetAckId())
}

// bury moves a message to the dead letters.
func (b *Bus) bury(ctx context.Context, q bus.QueueConfig, ackID string, p *pubsubpb.PubsubMessage, l letter) error {
	dead := copyOf(p, l.attributes(q.Name))
	delete(dead.Attributes, attrQueue)
	dead.OrderingKey = ""
	if err := b.put(ctx, deadName, []*pubsubpb.PubsubMessage{dead}); err != nil {
		return err
	}
	return b.ack(ctx, q.Name, ackID)
}

// ack removes messages from a subscription.
func (b *Bus) ack(ctx context.Context, name string, ackIDs ...string) error {
	for len(ackIDs) > 0 {
		n := min(len(ackIDs), maxPull)
		err := b.cfg.Subscriptions.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: b.cfg.subscription(name),
			AckIds: ackIDs[:n]})
		if err != nil {
			return err
		}
		ackIDs = ackIDs[n:]
	}
	return nil
}

// hide hides a message for d from now.
func (b *Bus) hide(ctx context.Context, name, ackID string, d time.Duration) error {
	return b.cfg.Subscriptions.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: b.cfg.subscription(name), AckIds: []string{ackID}, AckDeadlineSeconds: deadline(d),
	})
}

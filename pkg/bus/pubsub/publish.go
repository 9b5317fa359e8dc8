package pubsub

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) (err error) {
	ctx, end, err := b.queues.Begin(ctx, "publish")
	if err != nil {
		return err
	}
	defer end(&err)
	for i := range messages {
		if err := messages[i].Validate(); err != nil {
			return err
		}
	}
	var live, dead []*pubsubpb.PubsubMessage
	for i := range messages {
		m := &messages[i]
		names, routed := b.cfg.Route[m.Type]
		if !routed {
			l := letter{reason: fmt.Sprintf("no queue is routed to type %q", m.Type), at: b.clock.Now()}
			dead = append(dead, copyOf(b.encode(m, ""), l.attributes("")))
		}
		for _, name := range names {
			live = append(live, b.encode(m, name))
		}
	}
	if err := b.put(ctx, deadName, dead); err != nil {
		return err
	}
	return b.put(ctx, topicName, live)
}

// put publishes to a topic with as few calls as Pub/Sub allows: all messages of a call must have the same ordering key.
func (b *Bus) put(ctx context.Context, topic string, messages []*pubsubpb.PubsubMessage) error {
	for _, batch := range batches(messages) {
		out, err := b.cfg.Topics.Publish(ctx, &pubsubpb.PublishRequest{Topic: b.cfg.topic(topic), Messages: batch})
		if err == nil && len(out.GetMessageIds()) != len(batch) {
			err = fmt.Errorf("%d of %d messages were taken", len(out.GetMessageIds()), len(batch))
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", b.cfg.Prefix+topic, err)
		}
	}
	return nil
}

// batches splits messages into one batch for each call. Messages with the same key keep their order.
func batches(messages []*pubsubpb.PubsubMessage) [][]*pubsubpb.PubsubMessage {
	type batch struct {
		messages []*pubsubpb.PubsubMessage
		bytes    int
	}
	var out []*batch
	open := make(map[string]*batch) // by ordering key
	for _, m := range messages {
		size := len(m.GetData()) + 64
		for name, value := range m.GetAttributes() {
			size += len(name) + len(value) + 8
		}
		o := open[m.GetOrderingKey()]
		if o == nil || len(o.messages) == maxPublish || o.bytes+size > maxCall {
			o = &batch{}
			open[m.GetOrderingKey()] = o
			out = append(out, o)
		}
		o.messages, o.bytes = append(o.messages, m), o.bytes+size
	}
	calls := make([][]*pubsubpb.PubsubMessage, len(out))
	for i, o := range out {
		calls[i] = o.messages
	}
	return calls
}

// letter describes why and when a message became a dead letter.
type letter struct {
	reason   string
	attempts int
	at       time.Time
}

func (l letter) attributes(queue string) map[string]string {
	return map[string]string{
		attrDeadQueue: queue, attrReason: bus.TrimReason(l.reason), attrAttempts: strconv.Itoa(l.attempts),
		attrAt: l.at.UTC().Format(time.RFC3339Nano),
	}
}

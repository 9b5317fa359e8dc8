package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

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
	now := b.clock.Now()
	var puts []types.PutEventsRequestEntry
	sends := make(map[string][]send)
	for i := range messages {
		m := &messages[i]
		names, routed := b.cfg.Route[m.Type]
		announced := slices.Contains(b.cfg.Announce, m.Type)
		if routed && len(names) == 0 && !announced {
			continue
		}
		detail, err := b.detail(ctx, m)
		if err != nil {
			return err
		}
		if err := b.route(sends, m, detail, names, routed, now); err != nil {
			return err
		}
		if announced {
			source := Source
			puts = append(puts, types.PutEventsRequestEntry{EventBusName: &b.cfg.EventBus, Source: &source,
				DetailType: &m.Type, Detail: &detail})
		}
	}
	for name, list := range sends {
		if err := b.send(ctx, name, list); err != nil {
			return err
		}
	}
	return b.put(ctx, puts)
}

// route adds a message to the sends for each queue of its type. Without a route it becomes a dead letter.
func (b *Bus) route(sends map[string][]send, m *bus.Message, detail string, names []string, routed bool,
	now time.Time) error {
	body, err := enveloped(m, detail, now)
	if err != nil {
		return err
	}
	if !routed {
		name := b.deadName("")
		sends[name] = append(sends[name], send{body: body, letter: &letter{
			reason: fmt.Sprintf("no queue is routed to type %q", m.Type), at: now,
		}})
	}
	for _, name := range names {
		name = b.queueName(name)
		sends[name] = append(sends[name], send{body: body, delay: m.NotBefore.Sub(now)})
	}
	return nil
}

// detail encodes a message for sending. A body that is too large is stored in the bucket.
func (b *Bus) detail(ctx context.Context, m *bus.Message) (string, error) {
	d := newDetail(m)
	text, err := d.marshal()
	if err != nil || inline(text) {
		return text, err
	}
	d.Body, d.Text, d.Data = nil, "", nil
	if d.Ref, err = b.store(ctx, m.Body); err != nil {
		return "", err
	}
	return d.marshal()
}

// entrySize returns the size of an entry as EventBridge counts it.
func entrySize(e types.PutEventsRequestEntry) int {
	return len(*e.Source) + len(*e.DetailType) + len(*e.Detail)
}

// put puts entries on the EventBridge bus, in as few calls as possible. It retries only the entries of a call
// that failed.
func (b *Bus) put(ctx context.Context, entries []types.PutEventsRequestEntry) error {
	for batch := range batches(entries, entrySize) {
		left := batch
		err := b.retry(ctx, func() (bool, error) {
			out, err := b.cfg.EventBridge.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: left})
			if err != nil {
				return true, err
			}
			left, err = failedEntries(left, out)
			return len(left) == 0, err
		})
		if err != nil {
			return fmt.Errorf("event bus %s: %w", b.cfg.EventBus, err)
		}
	}
	return nil
}

// failedEntries returns the failed entries of an answer and the first one's error. A permanent error is wrapped so
// that it is not retried.
func failedEntries(entries []types.PutEventsRequestEntry,
	out *eventbridge.PutEventsOutput) ([]types.PutEventsRequestEntry, error) {
	if out.FailedEntryCount == 0 {
		return nil, nil
	}
	if len(out.Entries) != len(entries) {
		return entries, fmt.Errorf("EventBridge answered with %d entries for %d", len(out.Entries), len(entries))
	}
	var failed []types.PutEventsRequestEntry
	var first error
	for i, r := range out.Entries {
		if r.ErrorCode == nil || *r.ErrorCode == "" {
			continue
		}
		e := &entryError{code: *r.ErrorCode, message: deref(r.ErrorMessage)}
		if !temporary(e.code) {
			return nil, &finalError{e}
		}
		if first == nil {
			first = e
		}
		failed = append(failed, entries[i])
	}
	return failed, first
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

const (
	// lookVisibility is the time for which listing a letter hides it from others. A function that dies leaves the
	// letter hidden for that time. So the time is only a little longer than a caller's time limit (30 s behind an API
	// Gateway). A letter that is received twice is listed once.
	lookVisibility = 45 * time.Second
	// redriveVisibility is the time for which a redrive hides a letter. It is longer, because a letter that is
	// received twice would be sent twice.
	redriveVisibility = 2 * time.Minute
	// maxListed is the maximum number of letters of a queue that are read for a list. The list has the oldest of
	// those.
	maxListed = 10_000
	// directAttempts is the number of times that Lambda tries an event from EventBridge, as configured in infra/.
	directAttempts = 3
	// emptyPolls is the number of empty receives after which the queue counts as empty, even if SQS reports messages.
	emptyPolls = 3
)

// deadMessage is a message in a dead-letter queue.
type deadMessage struct {
	bus.DeadLetter
	envelope Envelope
	body     string
	target   string // queue that EventBridge could not deliver to
	id       string // SQS message ID
	handle   string
}

// DeadLetters implements bus.Bus.
func (b *Bus) DeadLetters(ctx context.Context, queue string, limit int) (_ []bus.DeadLetter, err error) {
	ctx, end, err := b.queues.Begin(ctx, "dead letters")
	if err != nil {
		return nil, err
	}
	defer end(&err)
	names, err := b.deadOf(queue)
	if err != nil || limit <= 0 {
		return nil, err
	}
	b.dead.Lock()
	defer b.dead.Unlock()
	all := make([][]deadMessage, len(names))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, name := range names {
		g.Go(func() (err error) {
			defer func() { err = errors.Join(err, b.release(ctx, name, all[i])) }()
			return b.eachDead(gctx, name, lookVisibility, func(page []deadMessage) (bool, error) {
				all[i] = append(all[i], page...)
				return len(all[i]) < maxListed, nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	found := slices.Concat(all...)
	slices.SortStableFunc(
		found,
		func(x, y deadMessage) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID)) },
	)
	found = found[:min(limit, len(found))]
	letters := make([]bus.DeadLetter, len(found))
	for i := range found {
		c := &found[i]
		if c.envelope.Ref != nil {
			if c.Message, err = b.Load(ctx, c.envelope); errors.Is(err, ErrUnreadable) {
				c.Reason = bus.TrimReason(c.Reason + "; " + err.Error())
			} else if err != nil {
				return nil, err
			}
		}
		letters[i] = c.DeadLetter
	}
	return letters, nil
}

// deadOf returns the queues whose dead letters are wanted; "" is the queue for messages without a route.
func (b *Bus) deadOf(queue string) ([]string, error) {
	if queue != "" {
		_, err := b.queues.Config(queue)
		return []string{queue}, err
	}
	names := []string{""}
	for _, q := range b.cfg.Queues {
		names = append(names, q.Name)
	}
	return names, nil
}

// eachDead calls yield with the letters of a queue, a few at a time, until yield returns false or there are no more.
// It hides all letters for the time hold.
func (b *Bus) eachDead(ctx context.Context, queue string, hold time.Duration,
	yield func([]deadMessage) (bool, error)) error {
	name := b.deadName(queue)
	visible, _, err := b.count(ctx, name)
	if err != nil {
		return err
	}
	url, err := b.url(ctx, name)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for empty := 0; ; {
		in := &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: maxBatch, VisibilityTimeout: seconds(hold, maxVisibility),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{
				types.MessageSystemAttributeNameSentTimestamp},
			MessageAttributeNames: []string{"All"},
		}
		if len(seen) < visible {
			in.WaitTimeSeconds = 1 // asks all of SQS's servers
		}
		var out *sqs.ReceiveMessageOutput
		err := b.retry(ctx, func() (bool, error) {
			out, err = b.cfg.SQS.ReceiveMessage(ctx, in)
			return true, err
		})
		if err != nil {
			return err
		}
		var page []deadMessage
		for i := range out.Messages {
			if m := &out.Messages[i]; !seen[deref(m.MessageId)] {
				seen[deref(m.MessageId)] = true
				page = append(page, b.readLetter(queue, m))
			}
		}
		if len(page) == 0 {
			if empty++; len(seen) >= visible || empty == emptyPolls {
				return nil
			}
			continue
		}
		if more, err := yield(page); err != nil || !more {
			return err
		}
	}
}

// readLetter converts a message of a dead-letter queue.
func (b *Bus) readLetter(queue string, m *types.Message) deadMessage {
	c := deadMessage{body: deref(m.Body), id: deref(m.MessageId), handle: deref(m.ReceiptHandle)}
	c.Queue = queue
	e, err := Decode([]byte(c.body))
	switch {
	case err != nil:
		c.Message = bus.Message{ID: c.id, Body: []byte(c.body)}
	case e.Kind == External:
		c.Message = e.Foreign.message()
	default:
		c.envelope, c.Message = e, e.Message
	}
	if l := letterOf(m); l != nil {
		c.Reason, c.Attempts, c.At = l.reason, l.attempts, l.at
		return c
	}
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10,
		64); err == nil {
		c.At = time.UnixMilli(ms).UTC()
	}
	// The message is from EventBridge. Such messages may also be in the dead-letter queue of a function that
	// EventBridge invokes directly.
	if queue == "" || deref(m.MessageAttributes["ERROR_CODE"].StringValue) != "" {
		b.readUndelivered(&c, m)
		return c
	}
	// From Lambda, for an event with which EventBridge invoked it directly.
	if says := deref(m.MessageAttributes["ErrorMessage"].StringValue); says != "" {
		c.Reason, c.Attempts = bus.TrimReason("the function failed: "+says), directAttempts
		return c
	}
	config, _ := b.queues.Config(queue)
	c.Reason = fmt.Sprintf("no answer within %v of the last delivery (%d)", config.Visibility, config.MaxAttempts)
	c.Attempts = config.MaxAttempts
	return c
}

// readUndelivered reads the attributes that EventBridge adds to an event that it could not deliver to a queue; the
// deployment's template sends such events here (EventBridge, "Using dead-letter queues to process undelivered events").
func (b *Bus) readUndelivered(c *deadMessage, m *types.Message) {
	says := func(name string) string { return deref(m.MessageAttributes[name].StringValue) }
	c.Reason = bus.TrimReason(fmt.Sprintf("EventBridge could not deliver it: %s %s", says("ERROR_CODE"),
		says("ERROR_MESSAGE")))
	target := says("TARGET_ARN")
	name, ours := strings.CutPrefix(target[strings.LastIndexByte(target, ':')+1:], b.cfg.QueuePrefix)
	if _, err := b.queues.Config(name); ours && err == nil {
		c.target = name
	}
}

// release makes received letters visible again, even if ctx was cancelled.
func (b *Bus) release(ctx context.Context, queue string, letters []deadMessage) error {
	if len(letters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	url, err := b.url(ctx, b.deadName(queue))
	if err != nil {
		return err
	}
	for batch := range batches(letters, func(deadMessage) int { return 0 }) {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
		for i := range batch {
			id := strconv.Itoa(i)
			entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{Id: &id, ReceiptHandle: &batch[i].handle,
				VisibilityTimeout: 0}
		}
		err := b.retry(ctx, func() (bool, error) {
			out, err := b.cfg.SQS.ChangeMessageVisibilityBatch(ctx,
				&sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: entries})
			if err != nil {
				return true, err
			}
			entries, err = failedBatchEntries(entries, func(e types.ChangeMessageVisibilityBatchRequestEntry) string {
				return *e.Id
			}, out.Failed,
				func(_ types.ChangeMessageVisibilityBatchRequestEntry, e *entryError) bool {
					return stale(e.code, e.message)
				}) // already visible again
			return len(entries) == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Redrive implements bus.Bus.
func (b *Bus) Redrive(ctx context.Context, queue string, ids ...string) (redriven int, err error) {
	ctx, end, err := b.queues.Begin(ctx, "redrive")
	if err != nil {
		return 0, err
	}
	defer end(&err)
	names, err := b.deadOf(queue)
	if err != nil {
		return 0, err
	}
	b.dead.Lock()
	defer b.dead.Unlock()
	for _, name := range names {
		n, err := b.redrive(ctx, name, ids)
		redriven += n
		if err != nil {
			return redriven, err
		}
	}
	return redriven, nil
}

// redrive sends the letters of one queue back. It ignores letters that were written after its start. Otherwise it
// could redrive a message that fails at once again and again.
func (b *Bus) redrive(ctx context.Context, name string, ids []string) (redriven int, err error) {
	begun := b.clock.Now()
	var stay []deadMessage
	defer func() { err = errors.Join(err, b.release(ctx, name, stay)) }()
	err = b.eachDead(ctx, name, redriveVisibility, func(page []deadMessage) (bool, error) {
		sends := make(map[string][]send)
		var leave []string
		for i := range page {
			c := &page[i]
			to := b.origin(c)
			if len(to) == 0 || c.At.After(begun) || len(ids) > 0 && !slices.Contains(ids, c.ID) {
				stay = append(stay, *c)
				continue
			}
			for _, q := range to {
				sends[b.queueName(q)] = append(sends[b.queueName(q)],
					send{body: c.body, delay: c.NotBefore.Sub(b.clock.Now())})
			}
			leave = append(leave, c.handle)
		}
		for q, list := range sends {
			if err := b.send(ctx, q, list); err != nil {
				stay = append(stay, page...)
				return false, err
			}
		}
		left, err := b.delete(ctx, b.deadName(name), leave)
		redriven += len(leave) - len(left)
		if errors.Is(err, bus.ErrStaleReceipt) {
			err = nil // another process redrives the same letters
		}
		return true, err
	})
	return redriven, err
}

// origin returns the queues to which a letter goes back.
func (b *Bus) origin(c *deadMessage) []string {
	switch {
	case c.Queue != "":
		return []string{c.Queue}
	case c.target != "":
		return []string{c.target}
	}
	return b.cfg.Route[c.Type]
}

// Depth implements bus.Bus.
func (b *Bus) Depth(ctx context.Context, name string) (_ int, err error) {
	ctx, q, end, err := b.queues.Enter(ctx, "depth", name)
	if err != nil {
		return 0, err
	}
	defer end(&err)
	visible, hidden, err := b.count(ctx, b.queueName(q.Name))
	return visible + hidden, err
}

// count returns the length of a queue, given by its SQS name.
func (b *Bus) count(ctx context.Context, name string) (visible, hidden int, err error) {
	url, err := b.url(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	wanted := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	var out *sqs.GetQueueAttributesOutput
	err = b.retry(ctx, func() (bool, error) {
		out, err = b.cfg.SQS.GetQueueAttributes(ctx,
			&sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: wanted})
		return true, err
	})
	if err != nil {
		return 0, 0, err
	}
	for i, name := range wanted {
		n, err := strconv.Atoi(out.Attributes[string(name)])
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("attribute %s of the queue is not a number: %q", name, out.Attributes[string(name)])
		case i == 0:
			visible = n
		default:
			hidden += n
		}
	}
	return visible, hidden, nil
}

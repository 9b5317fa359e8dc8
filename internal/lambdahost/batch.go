package lambdahost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Queue acknowledges messages that Lambda has received. A *busaws.Bus is one.
type Queue interface {
	Adopt(ctx context.Context, queue string, r busaws.Received) (d bus.Delivery, ok bool, err error)
	Nack(ctx context.Context, queue, receipt, reason string) error
	Reject(ctx context.Context, queue, receipt, reason string) error
}

// Handler runs a function on the events for which Lambda invokes it.
type Handler struct {
	Sandbox   *Sandbox
	Functions *broker.Functions
	// Notices reads EC2's interruption warnings; nil accepts none.
	Notices Notices
	// After runs after each batch, for work that depends on the state that the batch left. If it fails, the batch is
	// delivered again. Nil does nothing.
	After func(ctx context.Context) error
}

// Serve makes the broker of a function that gets its events from its queue, and returns the function's handler.
func (s *Sandbox) Serve(ports broker.Ports) (any, error) {
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	return (&Handler{Sandbox: s, Functions: b.Functions}).HandleSQS, nil
}

func (h *Handler) decoder() Decoder { return Decoder{Notices: h.Notices} }

// item is one message of a batch.
type item struct {
	message  awsevents.SQSMessage
	delivery bus.Delivery
	event    events.Event
	ready    bool // event must be handled
	err      error
}

// margin returns how much of a function's remaining time is reserved for returning unfinished messages.
func margin(left time.Duration) time.Duration { return min(left/5, 5*time.Second) }

// settleWithin limits the time for returning messages.
const settleWithin = 4 * time.Second

// HandleSQS runs the function on a batch. Lambda removes the messages whose events were handled or rejected; the others
// are listed in the response and delivered again. It never fails as a whole, and returns before its time runs out.
func (h *Handler) HandleSQS(ctx context.Context, batch awsevents.SQSEvent) (awsevents.SQSEventResponse, error) {
	done := h.Sandbox.Begin(ctx)
	defer done()
	work, grace := ctx, settleWithin
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		left := margin(time.Until(deadline))
		work, cancel = context.WithDeadline(ctx, deadline.Add(-left))
		grace = left / 4
		defer cancel()
	}
	var out awsevents.SQSEventResponse
	items := make([]item, len(batch.Records))
	for i, m := range batch.Records {
		items[i].message = m
	}
	ready := h.decode(work, items)
	h.run(work, ready, grace)
	h.after(work, ready)
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	for i := range items {
		if it := &items[i]; it.err != nil && !h.returnFailed(free, it) {
			out.BatchItemFailures = append(out.BatchItemFailures,
				awsevents.SQSBatchItemFailure{ItemIdentifier: it.message.MessageId})
		}
	}
	h.Sandbox.Log.DebugContext(ctx, "batch", "messages", len(items), "again", len(out.BatchItemFailures))
	return out, nil
}

// decode reads the messages and returns those that hold an event for the function. Related events are adjacent, so that
// they share a transaction.
func (h *Handler) decode(ctx context.Context, items []item) []*item {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range items {
		slots <- struct{}{}
		wg.Go(func() { // large bodies are stored elsewhere
			defer func() { <-slots }()
			it := &items[i]
			if it.event, it.ready, it.err = h.adopt(ctx, it); it.err != nil && final(it.err) {
				it.err = fmt.Errorf("%w: %w", record.ErrFinal, it.err)
			}
		})
	}
	wg.Wait()
	var ready []*item
	for i := range items {
		if items[i].ready && items[i].err == nil {
			ready = append(ready, &items[i])
		}
	}
	slices.SortStableFunc(ready, func(a, b *item) int {
		return cmp.Compare(a.event.Data.Group(), b.event.Data.Group())
	})
	return ready
}

// adopt takes a message over from Lambda and decodes it.
func (h *Handler) adopt(ctx context.Context, it *item) (e events.Event, ok bool, err error) {
	attempt, _ := strconv.Atoi(it.message.Attributes["ApproximateReceiveCount"]) // 0 if missing
	it.delivery, ok, err = h.Sandbox.Queue.Adopt(ctx, h.Sandbox.Function, busaws.Received{
		MessageID: it.message.MessageId, ReceiptHandle: it.message.ReceiptHandle, Body: it.message.Body,
		Attempt: max(attempt, 1),
	})
	if err != nil || !ok {
		return e, false, err
	}
	return h.decoder().Decode(ctx, it.delivery.Body)
}

// after runs After. If it fails, the events are delivered again; handling them twice changes nothing.
func (h *Handler) after(ctx context.Context, ready []*item) {
	if h.After == nil || len(ready) == 0 {
		return
	}
	if err := h.After(ctx); err != nil {
		for _, it := range ready {
			if it.err == nil {
				it.err = fmt.Errorf("lambdahost: after %s: %w", h.Sandbox.Function, err)
			}
		}
	}
}

// errTime: a message was not handled within the function's time.
var errTime = errors.New("lambdahost: out of time")

// run handles events and records the error of each. It returns within the grace period after the end of ctx, even if
// handlers still run: their commits are conditional, and the redelivered events find the work done.
func (h *Handler) run(ctx context.Context, ready []*item, grace time.Duration) {
	if len(ready) == 0 {
		return
	}
	list := make([]events.Event, len(ready))
	for i, it := range ready {
		list[i] = it.event
	}
	answer := make(chan []error, 1)
	go func() { answer <- h.handle(ctx, list) }()
	var errs []error
	select {
	case errs = <-answer:
	case <-ctx.Done():
		select {
		case errs = <-answer:
		case <-time.After(grace):
			errs = slices.Repeat([]error{errTime}, len(ready))
		}
	}
	for i, it := range ready {
		it.err = errs[i]
		if it.err == nil {
			h.Sandbox.count.events.Add(1)
		}
	}
}

// atOnce is how many events a function that waits for other systems handles at once.
const atOnce = 10

// handle runs the function. Functions that wait for clouds or users handle a whole batch concurrently, because waiting
// time is paid for.
func (h *Handler) handle(ctx context.Context, list []events.Event) []error {
	if !broker.TraitsOf(h.Sandbox.Function).Parallel {
		return h.Functions.Handle(ctx, h.Sandbox.Function, list)
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = h.Functions.Handle(ctx, h.Sandbox.Function, list[i:i+1])[0]
		})
	}
	wg.Wait()
	return errs
}

// returnFailed rejects an event that can never succeed, and makes the queue deliver others again after a while. given
// reports that the message may be removed.
func (h *Handler) returnFailed(ctx context.Context, it *item) (given bool) {
	attrs := []any{"message", it.message.MessageId, "attempt", it.delivery.Attempt, "err", it.err}
	if it.event.Data != nil {
		attrs = append(attrs, "type", it.event.Type(), "id", it.event.ID)
	}
	if errors.Is(it.err, record.ErrFinal) {
		h.Sandbox.Log.ErrorContext(ctx, "given up", attrs...)
		if err := h.Sandbox.Queue.Reject(ctx, h.Sandbox.Function, it.delivery.Receipt, it.err.Error()); err != nil {
			h.Sandbox.Log.WarnContext(
				ctx,
				"a dead letter could not be stored; its message will be delivered again",
				"message",
				it.message.MessageId,
				"err",
				err,
			)
			return false
		}
		h.Sandbox.count.dead.Add(1)
		return true
	}
	h.Sandbox.Log.InfoContext(ctx, "will be retried", attrs...)
	if it.delivery.Receipt == "" {
		return false // it was not adopted
	}
	if err := h.Sandbox.Queue.Nack(ctx, h.Sandbox.Function, it.delivery.Receipt, it.err.Error()); err != nil {
		h.Sandbox.Log.DebugContext(ctx, "no back-off; the message returns after its visibility timeout", "message",
			it.message.MessageId, "err", err)
	}
	return false
}

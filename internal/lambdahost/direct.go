package lambdahost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// ServeDoor runs a function that is invoked by EventBridge directly as well as by its queue: by a schedule, or because
// work comes in while nothing is open and no queue is polled. What Lambda has tried three times is a dead letter of the
// function's, and comes back by its queue when it is redriven. It does not return.
func ServeDoor(fn string, parts ...Part) {
	Run(fn, func(h *Host) (any, error) { return h.HandleDoor, nil }, parts...)
}

// HandleDoor runs the function on what it is invoked with: one event as EventBridge wrote it, or a batch of its queue.
func (h *Host) HandleDoor(ctx context.Context, raw json.RawMessage) (any, error) {
	var batch awsevents.SQSEvent
	if err := json.Unmarshal(raw, &batch); err == nil && batch.Records != nil {
		return h.HandleSQS(ctx, batch)
	}
	return nil, h.handleDirect(ctx, raw)
}

// handleDirect handles one event. An error has Lambda try again, and in the end keep the event as a dead letter.
func (h *Host) handleDirect(ctx context.Context, raw []byte) error {
	defer h.Begin(ctx)()
	e, ok, err := h.Decoder.Decode(ctx, raw)
	if err != nil {
		h.log.ErrorContext(ctx, "not an event for this function", "err", err)
		return fmt.Errorf("lambdahost: %s: %w", h.fn, err)
	}
	if !ok {
		return nil
	}
	if err := h.Broker.Functions.Handle(ctx, h.fn, []events.Event{e})[0]; err != nil {
		final := errors.Is(err, record.ErrFinal)
		h.log.ErrorContext(ctx, "failed", "type", e.Type(), "id", e.ID, "final", final, "err", err)
		return fmt.Errorf("lambdahost: %s: %s %s: %w", h.fn, e.Type(), e.ID, err)
	}
	h.count.events.Add(1)
	if h.After != nil {
		return h.After(ctx)
	}
	return nil
}

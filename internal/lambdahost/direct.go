package lambdahost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// HandleDirectOrSQS is for a function that EventBridge invokes directly as well as by its queue: for a schedule, or
// because work arrives while nothing is open and no queue is polled. It accepts one event as EventBridge wrote it, or a
// batch from the queue. After three failed attempts by Lambda the event is a dead letter of the function, and after a
// redrive it comes by the queue.
func (h *Handler) HandleDirectOrSQS(ctx context.Context, raw json.RawMessage) (any, error) {
	var batch awsevents.SQSEvent
	if err := json.Unmarshal(raw, &batch); err == nil && batch.Records != nil {
		return h.HandleSQS(ctx, batch)
	}
	return nil, h.handleDirect(ctx, raw)
}

// handleDirect handles one event. After an error Lambda retries, and finally stores the event as a dead letter.
func (h *Handler) handleDirect(ctx context.Context, raw []byte) error {
	defer h.Sandbox.Begin(ctx)()
	e, ok, err := h.decoder().Decode(ctx, raw)
	if err != nil {
		h.Sandbox.Log.ErrorContext(ctx, "not an event for this function", "err", err)
		return fmt.Errorf("lambdahost: %s: %w", h.Sandbox.Function, err)
	}
	if !ok {
		return nil
	}
	if err := h.Functions.Handle(ctx, h.Sandbox.Function, []events.Event{e})[0]; err != nil {
		final := errors.Is(err, record.ErrFinal)
		h.Sandbox.Log.ErrorContext(ctx, "failed", "type", e.Type(), "id", e.ID, "final", final, "err", err)
		return fmt.Errorf("lambdahost: %s: %s %s: %w", h.Sandbox.Function, e.Type(), e.ID, err)
	}
	h.Sandbox.count.events.Add(1)
	if h.After != nil {
		return h.After(ctx)
	}
	return nil
}

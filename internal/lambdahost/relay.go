package lambdahost

import (
	"context"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/store/dynamo"
)

// Outbox makes a store of what the table's stream brought: its outbox is that alone. A *dynamo.Store is one.
type Outbox interface {
	Feed(pending ...dynamo.Pending) *dynamo.Feed
}

// HandleStream publishes what a batch of the table's stream shows to have been put in the outbox, and removes it from
// there. Nothing is read: the stream brings the events themselves. What cannot be published is named in the answer, and
// the batch comes again from there on; what is left in the end, reconcile publishes.
func (h *Host) HandleStream(ctx context.Context,
	batch awsevents.DynamoDBEvent) (awsevents.DynamoDBEventResponse, error) {
	done := h.Begin(ctx)
	defer done()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin(time.Until(deadline))))
		defer cancel()
	}
	var pending []dynamo.Pending
	for _, r := range batch.Records {
		p, ok, err := dynamo.FromRecord(r)
		if err != nil { // never readable: it stays in the outbox, for people
			h.log.ErrorContext(ctx, "an item of the outbox cannot be read", "sequence", r.Change.SequenceNumber,
				"err", err)
			continue
		}
		if ok {
			pending = append(pending, p)
			h.lag(p)
		}
	}
	n, err := h.publish(ctx, pending)
	h.count.published.Add(int64(n))
	if err != nil {
		h.log.WarnContext(ctx, "relay", "items", len(pending), "published", n, "err", err)
		return awsevents.DynamoDBEventResponse{BatchItemFailures: []awsevents.DynamoDBBatchItemFailure{
			{ItemIdentifier: batch.Records[0].Change.SequenceNumber},
		}}, nil
	}
	h.log.DebugContext(ctx, "relay", "items", len(pending), "published", n)
	return awsevents.DynamoDBEventResponse{}, nil
}

// publish puts events on the bus and takes them out of the outbox, in that order, as many as the relay does at once and
// then the next.
func (h *Host) publish(ctx context.Context, pending []dynamo.Pending) (published int, err error) {
	ports := h.Ports
	ports.Store = h.Outbox.Feed(pending...)
	relay := broker.New(h.Config, ports)
	for {
		n, err := relay.Functions.Relay(ctx)
		if published += n; err != nil || n == 0 {
			return published, err
		}
	}
}

// lag notes how long ago events were committed.
func (h *Host) lag(p dynamo.Pending) {
	for _, pending := range p.Events {
		if e, err := events.Parse(pending.Body); err == nil {
			h.count.lagged(h.now().Sub(e.Time))
		}
	}
}

package lambdahost

import (
	"context"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/outbox"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
)

// Outbox makes a store whose outbox contains only the records that the table's stream delivered. A *dynamo.Store is
// one.
type Outbox interface {
	Feed(pending ...dynamo.Pending) *dynamo.Feed
}

// HandleStream publishes the events that a batch of the table's stream shows to be new in the outbox, and removes them
// from there. The stream contains the events, so nothing is read. If an event cannot be published, the response names
// it, and the batch is delivered again from there on. Reconcile publishes what still remains.
func (s *Sandbox) HandleStream(ctx context.Context,
	batch awsevents.DynamoDBEvent) (awsevents.DynamoDBEventResponse, error) {
	done := s.Begin(ctx)
	defer done()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin(time.Until(deadline))))
		defer cancel()
	}
	var pending []dynamo.Pending
	for _, r := range batch.Records {
		p, ok, err := dynamo.FromRecord(r)
		if err != nil { // permanent: it stays in the outbox for an operator
			s.Log.ErrorContext(ctx, "an outbox item cannot be read", "sequence", r.Change.SequenceNumber,
				"err", err)
			continue
		}
		if ok {
			pending = append(pending, p)
			s.lag(p)
		}
	}
	n, err := s.relay(s.Outbox.Feed(pending...)).All(ctx)
	s.count.published.Add(int64(n))
	if err != nil {
		s.Log.WarnContext(ctx, "relay", "items", len(pending), "published", n, "err", err)
		return awsevents.DynamoDBEventResponse{BatchItemFailures: []awsevents.DynamoDBBatchItemFailure{
			{ItemIdentifier: batch.Records[0].Change.SequenceNumber},
		}}, nil
	}
	s.Log.DebugContext(ctx, "relay", "items", len(pending), "published", n)
	return awsevents.DynamoDBEventResponse{}, nil
}

// relay returns a relay from an outbox to the deployment's bus.
func (s *Sandbox) relay(of outbox.Store) outbox.Relay {
	return outbox.Relay{Store: of, Bus: s.Bus, Log: s.Log}
}

// lag records how long ago events were committed.
func (s *Sandbox) lag(p dynamo.Pending) {
	for _, pending := range p.Events {
		if e, err := events.Parse(pending.Body); err == nil {
			s.count.lagged(s.Now().Sub(e.Time))
		}
	}
}

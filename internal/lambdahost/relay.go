package lambdahost

import (
	"context"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/outbox"
	"github.com/tradewind-broker/tradewind/pkg/store/dynamo"
)

// Outbox makes a store of what the table's stream brought: its outbox is that alone. A *dynamo.Store is one.
type Outbox interface {
	Feed(pending ...dynamo.Pending) *dynamo.Feed
}

// HandleStream publishes what a batch of the table's stream shows to have been put in the outbox, and removes it from
// there. Nothing is read: the stream brings the events themselves. What cannot be published is named in the answer, and
// the batch comes again from there on; what is left in the end, reconcile publishes.
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
		if err != nil { // never readable: it stays in the outbox, for people
			s.Log.ErrorContext(ctx, "an item of the outbox cannot be read", "sequence", r.Change.SequenceNumber,
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

// relay publishes an outbox on the deployment's bus.
func (s *Sandbox) relay(of outbox.Store) outbox.Relay {
	return outbox.Relay{Store: of, Bus: s.Bus, Log: s.Log}
}

// lag notes how long ago events were committed.
func (s *Sandbox) lag(p dynamo.Pending) {
	for _, pending := range p.Events {
		if e, err := events.Parse(pending.Body); err == nil {
			s.count.lagged(s.Now().Sub(e.Time))
		}
	}
}

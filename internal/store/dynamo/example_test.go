package dynamo_test

import (
	"context"
	"log"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
)

// The relay's Lambda function publishes the events in the table's stream, and removes them with few requests.
func ExampleStore_Feed() {
	s, err := dynamo.New(aws.Config{Region: "us-east-1"}, "tradewind", dynamo.Options{})
	if err != nil {
		log.Fatal(err)
	}
	handler := func(ctx context.Context, batch lambdaevents.DynamoDBEvent) error {
		var pending []dynamo.Pending
		for _, r := range batch.Records {
			p, ok, err := dynamo.FromRecord(r)
			if err != nil {
				log.Print(err) // the event stays in the table for inspection
				continue
			}
			if ok {
				pending = append(pending, p)
			}
		}
		feed := s.Feed(pending...)
		events, err := feed.Outbox(ctx, 1000)
		if err != nil {
			return err
		}
		for _, e := range events {
			log.Printf("publish %s", e.ID)
			if err := feed.Published(ctx, e.ID); err != nil {
				return err
			}
		}
		return nil
	}
	_ = handler
}

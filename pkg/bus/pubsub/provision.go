package pubsub

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// moreAttempts is how many more deliveries Pub/Sub's policy allows than the driver.
const moreAttempts = 5

// policyAttempts returns the number of deliveries after which Pub/Sub itself gives a message up.
func policyAttempts(q bus.QueueConfig) int32 {
	return int32(min(max(q.MaxAttempts+moreAttempts, minDeliveries), maxDeliveries)) //nolint:gosec // at most 100
}

// maxRetryBackoff is the longest back-off of a retry policy.
const maxRetryBackoff = 10 * time.Minute

// Provision creates the missing resources of a bus: the topics, the subscription of each queue with its filter,
// deadline, retry policy and dead-letter policy, and the subscription of the dead letters. Pub/Sub's service agent must
// be allowed to publish to the topic of dead letters and to subscribe to the queues.
func Provision(ctx context.Context, cfg Config) error {
	for _, name := range []string{topicName, deadName} {
		_, err := cfg.Topics.CreateTopic(ctx, &pubsubpb.Topic{Name: cfg.topic(name)})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("pubsub: topic %s: %w", cfg.Prefix+name, err)
		}
	}
	subscriptions := []*pubsubpb.Subscription{{
		Name: cfg.subscription(deadName), Topic: cfg.topic(deadName), AckDeadlineSeconds: deadline(maxDeadline),
		ExpirationPolicy: &pubsubpb.ExpirationPolicy{},
	}}
	for _, q := range cfg.Queues {
		subscriptions = append(subscriptions, &pubsubpb.Subscription{
			Name: cfg.subscription(q.Name), Topic: cfg.topic(topicName),
			AckDeadlineSeconds:    deadline(max(q.Visibility, minDeadline)),
			Filter:                fmt.Sprintf("attributes.%s = %q", attrQueue, q.Name),
			EnableMessageOrdering: cfg.Ordered,
			ExpirationPolicy:      &pubsubpb.ExpirationPolicy{}, // never expires, even if unused
			RetryPolicy: &pubsubpb.RetryPolicy{
				MinimumBackoff: durationpb.New(min(q.BackoffMin, maxRetryBackoff)),
				MaximumBackoff: durationpb.New(min(q.BackoffMax, maxRetryBackoff)),
			},
			DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: cfg.topic(deadName),
				MaxDeliveryAttempts: policyAttempts(q)},
		})
	}
	for _, s := range subscriptions {
		if _, err := cfg.Subscriptions.CreateSubscription(ctx, s); err != nil &&
			status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("pubsub: subscription %s: %w", s.GetName(), err)
		}
	}
	return nil
}

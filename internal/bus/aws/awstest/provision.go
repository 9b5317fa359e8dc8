// Package awstest creates the resources of the bus on an emulator, as the deployment's template does on AWS: the
// EventBridge bus, a rule, a queue and a dead-letter queue for each function, and the bucket. It is for tests; infra
// creates a real deployment.
package awstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Retention of dead letters in seconds: the maximum of SQS.
const retention = "1209600"

// Provision creates the queues and the event bus that a bus of c needs, with clients made from cfg, and returns c with
// its clients set. c.EventBus is the name of the EventBridge bus.
func Provision(ctx context.Context, cfg sdk.Config, c aws.Config) (aws.Config, error) {
	eb, queues := eventbridge.NewFromConfig(cfg), sqs.NewFromConfig(cfg)
	bucket := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	c.EventBridge, c.SQS, c.S3 = eb, queues, bucket
	if _, err := eb.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &c.EventBus}); Failed(err) {
		return c, fmt.Errorf("event bus %s: %w", c.EventBus, err)
	}
	if _, err := bucket.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &c.Bucket}); Failed(err) {
		return c, fmt.Errorf("bucket %s: %w", c.Bucket, err)
	}
	if _, err := createQueue(ctx, queues, c.QueuePrefix+"unrouted-dlq",
		map[string]string{"MessageRetentionPeriod": retention}); err != nil {
		return c, err
	}
	for _, q := range c.Queues {
		if err := provisionQueue(ctx, queues, c, q); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Failed reports whether a call that creates a resource with a new, random name has failed. An error that the
// resource exists is no failure: the SDK repeats a request whose answer was lost.
func Failed(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "ResourceAlreadyExistsException", "BucketAlreadyOwnedByYou", "BucketAlreadyExists", "ConflictException":
			return false
		}
	}
	return err != nil
}

func provisionQueue(ctx context.Context, queues *sqs.Client, c aws.Config, q bus.QueueConfig) error {
	name := c.QueuePrefix + q.Name
	dead, err := createQueue(ctx, queues, name+"-dlq", map[string]string{"MessageRetentionPeriod": retention})
	if err != nil {
		return err
	}
	redrive, err := json.Marshal(map[string]string{"deadLetterTargetArn": dead,
		"maxReceiveCount": strconv.Itoa(q.MaxAttempts)})
	if err != nil {
		return err
	}
	_, err = createQueue(ctx, queues, name, map[string]string{
		"RedrivePolicy": string(redrive), "VisibilityTimeout": strconv.Itoa(max(1, int(q.Visibility.Seconds()))),
	})
	return err
}

// createQueue creates a queue and returns its ARN.
func createQueue(ctx context.Context, queues *sqs.Client, name string, attributes map[string]string) (string, error) {
	created, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("queue %s: %w", name, err)
	}
	got, err := queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: created.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", fmt.Errorf("queue %s: %w", name, err)
	}
	return got.Attributes[string(sqstypes.QueueAttributeNameQueueArn)], nil
}

package lambdahost

import (
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/events"
	busaws "github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// connect makes the clients for the deployment's table and queues.
func connect(env Env, cfg aws.Config, log *slog.Logger, now func() time.Time) (a adapters, err error) {
	table, err := dynamo.New(cfg, env.Table, dynamo.Options{Log: log, Now: now})
	if err != nil {
		return a, err
	}
	of := busaws.Config{
		EventBus: env.Bus, QueuePrefix: env.QueuePrefix, QueueURLs: env.QueueURLs, Bucket: env.WorkBucket,
		Queues: QueueRules(), Route: events.Routes(), Announce: env.Announce,
		EventBridge: eventbridge.NewFromConfig(cfg), SQS: sqs.NewFromConfig(cfg),
		S3: s3.NewFromConfig(cfg, S3Options(cfg)),
	}
	b, err := busaws.New(of)
	if err != nil {
		return a, err
	}
	of.Announce = nil // the relay announces
	urgent, err := busaws.New(of)
	return adapters{store: table, outbox: table, bus: b, queue: b, urgent: urgent}, err
}

// S3 makes a client of S3.
func (s *Sandbox) S3() *s3.Client { return s3.NewFromConfig(s.AWS, S3Options(s.AWS)) }

// S3Options suit S3 and its emulators, which do not have a host per bucket. They also stop the SDK from logging every
// object without a checksum.
func S3Options(cfg aws.Config) func(*s3.Options) {
	return func(o *s3.Options) {
		o.UsePathStyle = cfg.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true
	}
}

// The queues' rules, as infra/ deploys them. Visibility applies only to those who receive directly; Lambda uses the
// queue's own.
const (
	visibility  = 12 * time.Minute
	maxAttempts = 20
	backoffMin  = time.Second
	backoffMax  = 5 * time.Minute
)

// QueueRules returns the delivery rules of every function's queue on AWS.
func QueueRules() []bus.QueueConfig {
	var out []bus.QueueConfig
	for _, fn := range events.Functions() {
		out = append(out, bus.QueueConfig{
			Name: fn, Visibility: visibility, MaxAttempts: maxAttempts, BackoffMin: backoffMin, BackoffMax: backoffMax,
		})
	}
	return out
}

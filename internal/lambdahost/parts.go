package lambdahost

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	busaws "github.com/tradewind-broker/tradewind/pkg/bus/aws"
)

// Queues is the part that knows bus and queues.
func Queues(h *Host) error {
	cfg := busaws.Config{
		EventBus: h.Env.Bus, QueuePrefix: h.Env.QueuePrefix, QueueURLs: h.Env.QueueURLs, Bucket: h.Env.WorkBucket,
		Queues: QueueRules(), Route: events.Routes(), Announce: h.Env.Announce,
		EventBridge: eventbridge.NewFromConfig(h.AWS), SQS: sqs.NewFromConfig(h.AWS),
		S3: s3.NewFromConfig(h.AWS, S3Options(h.AWS)),
	}
	b, err := busaws.New(cfg)
	if err != nil {
		return err
	}
	cfg.Announce = nil // the relay does
	urgent, err := busaws.New(cfg)
	h.Ports.Bus, h.Queue, h.Urgent = b, b, urgent
	return err
}

// S3Options suit S3 and its emulators, which have no host for each bucket. The SDK would tell the log of every object
// without a checksum.
func S3Options(cfg aws.Config) func(*s3.Options) {
	return func(o *s3.Options) {
		o.UsePathStyle = cfg.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true
	}
}

// The queues' rules, as infra/ deploys them. Visibility is only for those who receive by themselves: Lambda goes by the
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

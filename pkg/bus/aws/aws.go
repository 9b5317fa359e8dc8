// Package aws is the bus of a deployment on AWS: one EventBridge bus, an SQS queue
// with a dead-letter queue for each function, and the work bucket for payloads too large for either.
//
// Publish sends an event to the queues that its type routes to, ten to a request: a queue's message costs a twentieth
// of what EventBridge takes for passing one on, and arrives sooner. Types that others want to hear of
// (Config.Announce) are put on the EventBridge bus as well, for rules of the deployment's owner. The queues also take
// what AWS itself sends by EventBridge, so the body of every message is an EventBridge envelope, whose detail is the
// message (Detail); Decode reads it, as the Lambda hosts do. A payload over what the two services carry lies in S3
// under its digest and travels as a reference. It is not deleted on Ack, for several queues share it: the bucket's
// life-cycle rule removes it, later than the queues' retention.
//
// What SQS cannot do, the driver does, and so:
//
//   - A message with NotBefore is sent with SQS's delay, 15 minutes at most, and again with what is left of its delay
//     when it comes too early.
//   - A delivery that is given up is sent to the dead-letter queue with the reason in its attributes and then deleted.
//     One that nobody answered after its last delivery is moved there by the queue's redrive policy when it is asked
//     for next. Of such a letter SQS keeps neither reason nor time: its At is when the message was sent.
//   - SQS has no way to look at a dead-letter queue but to receive from it. DeadLetters does, and shows the letters
//     again at once; two processes that list the same queue at the same time may each see a part.
//   - Times are SQS's: whole seconds, rounded up. Depth is approximate, as all that SQS says of lengths.
//   - SQS accepts the receipt of an earlier delivery. The bus remembers what it has delivered and answered itself,
//     and takes such a receipt for stale; one that another process has overtaken it can only find out where SQS says
//     so.
package aws

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/internal/driver"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// Source is the EventBridge source of every event of Tradewind.
const Source = "tradewind"

// Names of what a deployment has, by its queue prefix.
const (
	deadSuffix = "-dlq"
	unrouted   = "unrouted" // whose dead-letter queue takes what no queue is routed to
)

// EventBridge is what the bus needs of *eventbridge.Client.
type EventBridge interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput,
		...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

// SQS is what the bus needs of *sqs.Client.
type SQS interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput,
		...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput,
		...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput,
		...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

// S3 is what the bus needs of *s3.Client.
type S3 interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// Config is what a bus is made of.
type Config struct {
	EventBus    string // name or ARN of the EventBridge bus
	QueuePrefix string // tradewind-: the queue of function fn is tradewind-fn, its dead letters are in tradewind-fn-dlq
	// QueueURLs is what the URLs of all queues begin with, https://sqs.REGION.amazonaws.com/ACCOUNT/; SQS is asked for
	// each, once, where it is empty.
	QueueURLs string
	Bucket    string // takes payloads that are too large
	Queues    []bus.QueueConfig
	Route     bus.Route
	// Announce are the types of events that are put on the EventBridge bus, for rules of the deployment's owner,
	// whether a queue wants them or not. Each costs a millionth of a dollar.
	Announce []string
	// Translate makes a message of an event that AWS itself has sent to a queue. Without it such an
	// event is delivered as AWS wrote it, with its detail-type as the type.
	Translate func(Foreign) (bus.Message, error)

	EventBridge EventBridge
	SQS         SQS
	S3          S3
	Clock       clock.Clock // the system's when nil
}

func (c Config) validate() error {
	switch {
	case c.EventBus == "":
		return fmt.Errorf("%w: no event bus", bus.ErrInvalid)
	case c.Bucket == "":
		return fmt.Errorf("%w: no bucket for large payloads", bus.ErrInvalid)
	case c.EventBridge == nil || c.SQS == nil || c.S3 == nil:
		return fmt.Errorf("%w: a client is missing", bus.ErrInvalid)
	}
	for _, q := range c.Queues {
		if q.Name == unrouted || slices.ContainsFunc(c.Queues, func(o bus.QueueConfig) bool {
			return o.Name == q.Name+deadSuffix
		}) {
			return fmt.Errorf("%w: the name of queue %q is taken", bus.ErrInvalid, q.Name)
		}
	}
	return bus.ValidateRoute(c.Route, c.Queues)
}

// Bus is a bus.Bus on EventBridge and SQS. Make one with New.
type Bus struct {
	cfg    Config
	clock  clock.Clock
	queues *driver.Queues[string] // by SQS message ID, with the message's body
	dead   sync.Mutex             // one reader of the dead-letter queues in this process

	mu   sync.Mutex
	urls map[string]string // of queues by their SQS name
}

var _ bus.Bus = (*Bus)(nil)

// New makes a bus. It calls nobody; what it needs of the deployment is looked up when it is first used. It fails with
// bus.ErrInvalid or bus.ErrUnknownQueue.
func New(cfg Config) (*Bus, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Bus{
		cfg: cfg, clock: cfg.Clock, urls: make(map[string]string),
	}
	if b.clock == nil {
		b.clock = clock.System()
	}
	b.cfg.Route = make(bus.Route, len(cfg.Route))
	for typ, names := range cfg.Route {
		b.cfg.Route[typ] = slices.Clone(names)
	}
	b.queues = driver.NewQueues(cfg.Queues, b.clock, driver.Service[string](service{b}))
	return b, nil
}

// Close implements bus.Bus. What lies in the queues stays there.
func (b *Bus) Close() error {
	b.queues.Close()
	return nil
}

func (b *Bus) queueName(name string) string { return b.cfg.QueuePrefix + name }
func (b *Bus) deadName(name string) string {
	if name == "" {
		name = unrouted
	}
	return b.cfg.QueuePrefix + name + deadSuffix
}

// url returns the URL of a queue by its SQS name.
func (b *Bus) url(ctx context.Context, name string) (*string, error) {
	if b.cfg.QueueURLs != "" {
		url := b.cfg.QueueURLs + name
		return &url, nil
	}
	b.mu.Lock()
	url, ok := b.urls[name]
	b.mu.Unlock()
	if ok {
		return &url, nil
	}
	err := b.retry(ctx, func() (bool, error) {
		out, err := b.cfg.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
		if err != nil {
			return true, err
		}
		url = *out.QueueUrl
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	b.mu.Lock()
	b.urls[name] = url
	b.mu.Unlock()
	return &url, nil
}

// seconds is d as SQS takes it: whole seconds, rounded up, from 0 to most.
func seconds(d, most time.Duration) int32 {
	d = min(max(d, 0), most)
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // most is some hours
}

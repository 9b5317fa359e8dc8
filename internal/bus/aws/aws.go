// Package aws is the bus of a deployment on AWS: one EventBridge bus, an SQS queue
// with a dead-letter queue for each function, and the work bucket for payloads that are too large for either.
//
// Publish sends an event directly to the queues that its type routes to, ten to a request: a queue message costs a
// twentieth of passing the event on through EventBridge, and arrives sooner. Types that other applications want
// (Config.Announce) are also put on the EventBridge bus, for rules of the deployment's owner. The queues also receive
// events that AWS itself sends through EventBridge, so the body of every message is an EventBridge envelope, whose
// detail is the message (Detail). Decode reads it, also in the Lambda hosts. A payload that is too large for the two
// services is stored in S3 under its digest, and the message carries a reference. Ack does not delete it, because
// several queues share it: the bucket's life-cycle rule deletes it after the queues' retention.
//
// The driver adds what SQS lacks:
//
//   - A message with NotBefore is sent with SQS's delay, at most 15 minutes. If it arrives too early, it is sent again
//     with the remaining delay.
//   - A dead letter is sent to the dead-letter queue, with the reason in its attributes, and deleted from its queue.
//     If no consumer answers the last delivery, the queue's redrive policy moves the message at the next receive. SQS
//     records neither reason nor time for it: its At is when the message was sent.
//   - SQS can only show a dead-letter queue by receiving from it. DeadLetters receives the letters and makes them
//     visible again at once. If two processes list the same queue at the same time, each may see only a part.
//   - Times are SQS's: whole seconds, rounded up. Depth is approximate, like all lengths in SQS.
//   - SQS accepts the receipt of an earlier delivery. The bus remembers its own deliveries and answers and treats such
//     a receipt as stale. If another process received the message later, the bus notices only if SQS rejects the
//     receipt.
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

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// Source is the EventBridge source of every event of Tradewind.
const Source = "tradewind"

// Parts of SQS queue names, after the queue prefix.
const (
	deadSuffix = "-dlq"
	unrouted   = "unrouted" // its dead-letter queue holds messages that no queue is routed to
)

// EventBridge is the part of *eventbridge.Client that the bus needs.
type EventBridge interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput,
		...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

// SQS is the part of *sqs.Client that the bus needs.
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

// S3 is the part of *s3.Client that the bus needs.
type S3 interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
}

// Config is the configuration of a bus.
type Config struct {
	EventBus    string // name or ARN of the EventBridge bus
	QueuePrefix string // tradewind-: the queue of function fn is tradewind-fn, its dead letters are in tradewind-fn-dlq
	// QueueURLs is the prefix of all queue URLs, https://sqs.REGION.amazonaws.com/ACCOUNT/. If it is empty, the bus
	// requests the URL of each queue from SQS once.
	QueueURLs string
	Bucket    string // for payloads that are too large
	Queues    []bus.QueueConfig
	Route     bus.Route
	// Announce lists event types that are also put on the EventBridge bus, for rules of the deployment's owner,
	// even if no queue gets them. Each event costs a millionth of a dollar.
	Announce []string
	// Translate converts an event that AWS itself sent to a queue into a message. Without it, such an event is
	// delivered unchanged, with its detail-type as the type.
	Translate func(Foreign) (bus.Message, error)

	EventBridge EventBridge
	SQS         SQS
	S3          S3
	Clock       clock.Clock // nil means the system's clock
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
			return fmt.Errorf("%w: the name of queue %q is reserved", bus.ErrInvalid, q.Name)
		}
	}
	return bus.ValidateRoute(c.Route, c.Queues)
}

// Bus is a bus.Bus on EventBridge and SQS. Make one with New.
type Bus struct {
	cfg    Config
	clock  clock.Clock
	queues *queues[string] // by SQS message ID, with the message's body
	dead   sync.Mutex      // held by the process's only reader of dead-letter queues

	mu   sync.Mutex
	urls map[string]string // of queues by their SQS name
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus. It makes no requests; queues of the deployment are looked up at first use. It fails with
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
	b.queues = newQueues(cfg.Queues, b.clock, transport[string](service{b}))
	return b, nil
}

// Close implements bus.Bus. Messages in the queues stay there.
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

// seconds converts d for SQS: whole seconds, rounded up, from 0 to most.
func seconds(d, most time.Duration) int32 {
	d = min(max(d, 0), most)
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // most is some hours
}

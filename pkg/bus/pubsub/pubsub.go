// Package pubsub is the bus on Google Cloud Pub/Sub: a topic, a subscription for each function, and a topic and a
// subscription for dead letters. It also decodes Google's notices of preemption (Push, Preemption).
//
// Publish puts one copy of a message on the topic for each queue to which its type is routed. The copy's attribute
// "queue" names the queue, and the filter of the queue's subscription selects it. A filter on types would exceed
// Pub/Sub's limit of 256 bytes, and only separate copies have separate counts of deliveries. The type is an attribute
// as well, so that the owner of the deployment can filter by it.
//
// Pub/Sub delivers messages, counts deliveries (only for subscriptions with a dead-letter policy), makes unanswered
// messages visible again, and backs off by the subscription's retry policy. The driver does the rest:
//
//   - Attempts. A dead-letter policy allows 5 to 100 attempts. The driver gives a message up after its queue's own
//     limit and records the reason in the dead letter's attributes. The policy's limit is some attempts higher, for
//     messages that no driver receives any more.
//   - Silence. If a message was not answered after its last delivery, the driver makes it a dead letter when Pub/Sub
//     delivers it again.
//   - Delay. A message with NotBefore is hidden again, ten minutes at a time, until it is due. The consumer does not
//     see these deliveries: when the message is due, a copy replaces it and is delivered as its first attempt.
//   - Backoff. With Config.HoldBackoff, for servers without retry policies (pstest, the emulator), a failed message is
//     hidden for its back-off by extending its deadline. Other servers follow the policy: exponential between the
//     bounds.
//   - Receipts. Pub/Sub accepts any receipt, so the bus itself remembers which messages it has delivered and which
//     were answered.
//
// Visibility time-outs are from 10 s to 10 min, Pub/Sub's bounds for deadlines. Pub/Sub does not report the length of a
// queue, so Depth asks Config.Depth. With Config.Ordered, a message's group is its ordering key: only one message of a
// group is in flight at a time, and a failing one delays the others. Nothing in Tradewind needs this order.
package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/internal/driver"
)

// Limits of Pub/Sub.
const (
	minDeadline   = 10 * time.Second // of a subscription
	maxDeadline   = 10 * time.Minute
	minDeliveries = 5 // of a dead-letter policy
	maxDeliveries = 100
	maxPull       = 1000
	maxPublish    = 1000
	maxCall       = 9 << 20 // bytes of a publish; Pub/Sub's limit is 10 MB
)

// Config is the configuration of a bus.
type Config struct {
	Project string // Google Cloud project
	// Prefix begins the names of resources. With "tradewind-", the topic is tradewind-events, the dead letters are in
	// tradewind-dead, and the queue of function fn is the subscription tradewind-fn.
	Prefix  string
	Queues  []bus.QueueConfig
	Route   bus.Route
	Ordered bool
	// HoldBackoff is set if the server ignores retry policies.
	HoldBackoff bool
	// Depth returns the number of messages in a subscription, given its full name. Pub/Sub reports it only to Cloud
	// Monitoring (subscription/num_undelivered_messages), some minutes late. If it is nil, Bus.Depth fails with
	// errors.ErrUnsupported.
	Depth func(ctx context.Context, subscription string) (int, error)

	Topics        *vkit.TopicAdminClient
	Subscriptions *vkit.SubscriptionAdminClient
	Clock         clock.Clock // nil means the system's clock
}

// Bus is a bus.Bus on Pub/Sub. Make one with New.
type Bus struct {
	cfg    Config
	clock  clock.Clock
	queues *driver.Queues[*pubsubpb.PubsubMessage] // by Pub/Sub's message ID
	dead   sync.Mutex                              // held while a call reads the dead letters
}

var _ bus.Bus = (*Bus)(nil)

// New makes a bus on resources that Provision, or a template, has created. It makes no calls. It fails with
// bus.ErrInvalid or bus.ErrUnknownQueue.
func New(cfg Config) (*Bus, error) {
	if cfg.Project == "" || cfg.Topics == nil || cfg.Subscriptions == nil {
		return nil, fmt.Errorf("%w: a project and both clients are needed", bus.ErrInvalid)
	}
	for _, q := range cfg.Queues {
		if q.Name == deadName || q.Name == topicName {
			return nil, fmt.Errorf("%w: the name of queue %q is taken", bus.ErrInvalid, q.Name)
		}
	}
	if err := bus.ValidateRoute(cfg.Route, cfg.Queues); err != nil {
		return nil, err
	}
	b := &Bus{cfg: cfg, clock: cfg.Clock}
	if b.clock == nil {
		b.clock = clock.System()
	}
	b.cfg.Route = make(bus.Route, len(cfg.Route))
	for typ, names := range cfg.Route {
		b.cfg.Route[typ] = slices.Clone(names)
	}
	b.queues = driver.NewQueues(cfg.Queues, b.clock, driver.Service[*pubsubpb.PubsubMessage](service{b}))
	return b, nil
}

// Close implements bus.Bus. It leaves the clients open, because they belong to the caller.
func (b *Bus) Close() error {
	b.queues.Close()
	return nil
}

// Names of resources.
const (
	topicName = "events"
	deadName  = "dead"
)

func (c *Config) topic(name string) string {
	return "projects/" + c.Project + "/topics/" + c.Prefix + name
}

func (c *Config) subscription(name string) string {
	return "projects/" + c.Project + "/subscriptions/" + c.Prefix + name
}

// deadline converts a duration to Pub/Sub's format: whole seconds, rounded up, from 0 to ten minutes.
func deadline(d time.Duration) int32 {
	d = min(max(d, 0), maxDeadline)
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most 600
}

// Depth implements bus.Bus.
func (b *Bus) Depth(ctx context.Context, name string) (_ int, err error) {
	ctx, end, err := b.queues.Begin(ctx, "depth")
	if err != nil {
		return 0, err
	}
	defer end(&err)
	if _, err := b.queues.Config(name); err != nil {
		return 0, err
	}
	if b.cfg.Depth == nil {
		return 0, fmt.Errorf("%w: Pub/Sub does not say how long a queue is", errors.ErrUnsupported)
	}
	return b.cfg.Depth(ctx, b.cfg.subscription(name))
}

// Attributes of a message.
const (
	attrQueue     = "queue"
	attrID        = "id"
	attrType      = "type"
	attrGroup     = "group"
	attrNotBefore = "not-before"
	attrDue       = "due" // set on the copy that replaces a delayed message when it is due
)

// Attributes of a dead letter.
const (
	attrDeadQueue = "dead-queue"
	attrReason    = "dead-reason"
	attrAttempts  = "dead-attempts"
	attrAt        = "dead-at"
	// Pub/Sub sets these when its own policy has given a message up.
	attrSource = "CloudPubSubDeadLetterSourceSubscription"
	attrCount  = "CloudPubSubDeadLetterSourceDeliveryCount"
)

// encode makes the copy of a message for a queue.
func (b *Bus) encode(m *bus.Message, queue string) *pubsubpb.PubsubMessage {
	p := &pubsubpb.PubsubMessage{Data: m.Body, Attributes: map[string]string{attrID: m.ID, attrType: m.Type}}
	if queue != "" {
		p.Attributes[attrQueue] = queue
	}
	if m.Group != "" {
		p.Attributes[attrGroup] = m.Group
		if b.cfg.Ordered {
			p.OrderingKey = m.Group
		}
	}
	if !m.NotBefore.IsZero() {
		p.Attributes[attrNotBefore] = m.NotBefore.UTC().Format(time.RFC3339Nano)
	}
	return p
}

// decode reads a message. It fails for messages that another program has put on the topic and that are not the bus's.
func decode(p *pubsubpb.PubsubMessage) (bus.Message, error) {
	a := p.GetAttributes()
	m := bus.Message{ID: a[attrID], Type: a[attrType], Group: a[attrGroup], Body: p.GetData()}
	if text := a[attrNotBefore]; text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return m, fmt.Errorf("pubsub: %s: %w", attrNotBefore, err)
		}
		m.NotBefore = at
	}
	return m, m.Validate()
}

// copyOf returns a copy of a message to publish again, without the attributes that Pub/Sub has added, and with those
// in set.
func copyOf(p *pubsubpb.PubsubMessage, set map[string]string) *pubsubpb.PubsubMessage {
	out := &pubsubpb.PubsubMessage{Data: p.GetData(), OrderingKey: p.GetOrderingKey(),
		Attributes: make(map[string]string)}
	for name, value := range p.GetAttributes() {
		if !strings.HasPrefix(name, "dead-") && !strings.HasPrefix(name, "CloudPubSub") {
			out.Attributes[name] = value
		}
	}
	maps.Copy(out.Attributes, set)
	return out
}

// Package pubsub is the bus on Google Cloud Pub/Sub: a topic, a subscription for each function, and a topic and
// subscription for what was given up. It is also the road by which Google's notices of preemption come in (Push,
// Preemption).
//
// Publish puts one copy of a message on the topic for each queue that its type routes to, which the copy's attribute
// "queue" names and the subscription's filter selects. A filter of 256 bytes, Pub/Sub's limit, could not list a
// function's types; and a copy of its own has its own count of deliveries. The type is an attribute as well, for
// filters of the deployment's owner.
//
// What Pub/Sub does: deliver, count deliveries (which it does for subscriptions with a dead-letter policy only), time
// out, and back off by the subscription's retry policy. What it does not, the driver does:
//
//   - Attempts. A policy's limit is from 5 to 100. The driver gives a message up after its queue's own number, with the
//     reason in the letter's attributes; the policy, some attempts later, is for when no driver is there to do so.
//   - Silence. A message that nobody answered after its last delivery is a dead letter when it is delivered the next
//     time.
//   - Delay. A message with NotBefore is hidden again, ten minutes at a time, until it is due. These deliveries are not
//     the consumer's: when it is due, a copy takes its place and is delivered as its first attempt.
//   - Backoff. Where Config.HoldBackoff says that the server has no retry policies (pstest, the emulator), a failed
//     message is hidden for its back-off by its deadline instead. A server with them goes by the policy, whose form is
//     Google's own: exponential between the bounds.
//   - Receipts. Pub/Sub takes any receipt without complaint; the bus remembers what it has delivered and answered
//     itself.
//
// Visibility time-outs are from 10 s to 10 min, Pub/Sub's bounds for deadlines. How long a queue is Pub/Sub does not
// say: Depth asks Config.Depth. With Config.Ordered a message's group is its ordering key: then a message that fails
// holds up its group, which nothing in Tradewind needs, and only one of a group is out at a time.
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
	// tradewind-: the topic is tradewind-events, the dead are in tradewind-dead, the queue of fn is subscription
	// tradewind-fn
	Prefix  string
	Queues  []bus.QueueConfig
	Route   bus.Route
	Ordered bool
	// HoldBackoff: the server keeps no retry policies.
	HoldBackoff bool
	// Depth returns how many messages a subscription holds, by its full name. Pub/Sub tells Cloud Monitoring alone
	// (subscription/num_undelivered_messages), some minutes late. Without it Depth fails with errors.ErrUnsupported.
	Depth func(ctx context.Context, subscription string) (int, error)

	Topics        *vkit.TopicAdminClient
	Subscriptions *vkit.SubscriptionAdminClient
	Clock         clock.Clock // the system's when nil
}

// Bus is a bus.Bus on Pub/Sub. Make one with New.
type Bus struct {
	cfg    Config
	clock  clock.Clock
	queues *driver.Queues[*pubsubpb.PubsubMessage] // by Pub/Sub's message ID
	dead   sync.Mutex                              // one reader of the dead letters in this process
}

var _ bus.Bus = (*Bus)(nil)

// New makes a bus on what Provision, or a template, has created. It calls nobody. It fails with bus.ErrInvalid or
// bus.ErrUnknownQueue.
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

// Close implements bus.Bus. The clients stay open, for they are the caller's.
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

// deadline is a span as Pub/Sub takes it: whole seconds, rounded up, from 0 to ten minutes.
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
	attrDue       = "due" // takes the place of a delayed one that is due
)

// Attributes of a letter.
const (
	attrDeadQueue = "dead-queue"
	attrReason    = "dead-reason"
	attrAttempts  = "dead-attempts"
	attrAt        = "dead-at"
	// Set by Pub/Sub when its own policy has given a message up.
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

// decode reads a message. What another has put on the topic may be none.
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

// copyOf is a message to publish anew, without what Pub/Sub has added, and with other attributes.
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

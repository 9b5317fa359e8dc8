package pubsub_test

import (
	"context"
	"sync"
	"testing"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
	"github.com/tradewind-broker/tradewind/pkg/bus/pubsub"
)

// world is a Pub/Sub of its own, whose time the test moves.
type world struct {
	server *pstest.Server
	mu     sync.Mutex
	ahead  time.Duration
	config pubsub.Config
}

func newWorld(t testing.TB, s bustest.Setup, ordered bool) *world {
	t.Helper()
	w := &world{server: pstest.NewServer()}
	w.server.SetTimeNowFunc(w.Now)
	conn, err := grpc.NewClient(w.server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = w.server.Close()
	})
	topics, err := vkit.NewTopicAdminClient(t.Context(), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	subscriptions, err := vkit.NewSubscriptionAdminClient(t.Context(), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	w.config = pubsub.Config{
		Project: "p", Prefix: "tw-", Queues: s.Queues, Route: s.Route, Ordered: ordered, HoldBackoff: true, Depth: w.depth,
		Topics: topics, Subscriptions: subscriptions, Clock: w,
	}
	if err := pubsub.Provision(t.Context(), w.config); err != nil {
		t.Fatal(err)
	}
	return w
}

// depth counts what a queue's subscription has and nobody has acknowledged: each message is one queue's.
func (w *world) depth(_ context.Context, subscription string) (n int, err error) {
	for _, m := range w.server.Messages() {
		if m.Acks == 0 && "projects/p/subscriptions/tw-"+m.Attributes["queue"] == subscription {
			n++
		}
	}
	return n, nil
}

// Now, After and Wall are the clock of the bus and of the server.
func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) After(ctx context.Context, until time.Time) error {
	w.advance(until.Sub(w.Now()))
	return ctx.Err()
}

func (w *world) Wall(d time.Duration) time.Duration { return d }

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += max(d, 0)
}

func (w *world) open(t testing.TB) *pubsub.Bus {
	t.Helper()
	b, err := pubsub.New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestConformanceOnPubSubTest runs the suite without its clock: Pub/Sub keeps time in whole seconds. What time does is below.
func TestConformanceOnPubSubTest(t *testing.T) {
	var mu sync.Mutex
	worlds := make(map[bus.Bus]*world)
	remember := func(b bus.Bus, w *world) bus.Bus {
		mu.Lock()
		defer mu.Unlock()
		worlds[b] = w
		return b
	}
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		w := newWorld(t, s, false)
		return remember(w.open(t), w)
	}, bustest.Reopen(func(t *testing.T, b bus.Bus, s bustest.Setup) bus.Bus {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		w := worlds[b]
		mu.Unlock()
		w.config.Queues, w.config.Route = s.Queues, s.Route
		return remember(w.open(t), w)
	}))
}

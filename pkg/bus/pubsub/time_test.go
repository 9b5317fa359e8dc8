package pubsub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
	"github.com/tradewind-broker/tradewind/pkg/bus/pubsub"
)

// setup has times of minutes, which no test takes. The sum of a test's is below ten: pstest forgets what waits longer.
func setup() bustest.Setup {
	return bustest.Setup{
		Queues: []bus.QueueConfig{
			{Name: "work", Visibility: 2 * time.Minute, MaxAttempts: 3, BackoffMin: time.Minute, BackoffMax: 2 * time.Minute},
			{Name: "audit", Visibility: 2 * time.Minute, MaxAttempts: 1},
		},
		Route: bus.Route{"test.work.v1": {"work"}, "test.both.v1": {"work", "audit"}},
	}
}

// fixture is a bus on a Pub/Sub whose time the test moves.
type fixture struct {
	*testing.T
	*pubsub.Bus
	world *world
}

func start(t *testing.T, ordered bool) *fixture {
	t.Helper()
	w := newWorld(t, setup(), ordered)
	return &fixture{T: t, Bus: w.open(t), world: w}
}

func (f *fixture) publish(typ, group string, ids ...string) {
	f.Helper()
	var list []bus.Message
	for _, id := range ids {
		list = append(list, bus.Message{ID: id, Type: typ, Group: group, Body: []byte(`{}`)})
	}
	f.must(f.Publish(f.Context(), list...))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) take(queue string, ids ...string) []bus.Delivery {
	f.Helper()
	d, err := f.Receive(f.Context(), queue, 100, 0)
	f.must(err)
	var got []string
	for _, d := range d {
		got = append(got, d.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		f.Fatalf("received %q of %s, want %q", got, queue, ids)
	}
	return d
}

func (f *fixture) letter(queue, id string) bus.DeadLetter {
	f.Helper()
	letters, err := f.DeadLetters(f.Context(), queue, 10)
	if err != nil || len(letters) != 1 || letters[0].ID != id {
		f.Fatalf("dead letters of %s are %+v, %v, want %s", queue, letters, err, id)
	}
	return letters[0]
}

func TestADeliveryWithoutAnswerComesAgainAndDiesAfterItsLast(t *testing.T) {
	f := start(t, false)
	f.publish("test.both.v1", "g", "a")
	old := ""
	for attempt := 1; attempt <= 3; attempt++ {
		d := f.take("work", "a")[0]
		if d.Attempt != attempt {
			t.Errorf("attempt %d is called %d", attempt, d.Attempt)
		}
		if err := f.Nack(t.Context(), "work", old, "too late"); !errors.Is(err, bus.ErrStaleReceipt) {
			t.Errorf("Nack by an old receipt = %v", err)
		}
		old = d.Receipt
		f.world.advance(110 * time.Second)
		f.take("work")
		f.world.advance(11 * time.Second)
	}
	f.take("work")
	l := f.letter("work", "a")
	if l.Attempts != 3 || !strings.Contains(l.Reason, "no answer within 2m0s of delivery 3") || l.Queue != "work" {
		t.Errorf("%+v", l)
	}
	if n, err := f.Redrive(t.Context(), "work"); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	if d := f.take("work", "a")[0]; d.Attempt != 1 {
		t.Errorf("attempt %d after a redrive", d.Attempt)
	}
	f.take("audit", "a") // its own copy, with its own count
}

func TestAFailedMessageIsHiddenForItsBackoff(t *testing.T) {
	f := start(t, false)
	f.publish("test.work.v1", "g", "a")
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
		f.must(f.Nack(t.Context(), "work", f.take("work", "a")[0].Receipt, "not yet"))
		f.world.advance(wait - 10*time.Second)
		f.take("work")
		f.world.advance(11 * time.Second)
	}
	f.must(f.Nack(t.Context(), "work", f.take("work", "a")[0].Receipt, "never"))
	if l := f.letter("work", "a"); l.Reason != "never" || l.Attempts != 3 {
		t.Errorf("%+v", l)
	}
}

func TestADelayIsNoAttempt(t *testing.T) {
	f := start(t, false)
	at := f.world.Now().Add(8 * time.Minute)
	f.must(f.Publish(t.Context(), bus.Message{ID: "later", Type: "test.work.v1", Group: "g", Body: []byte("x"), NotBefore: at}))
	f.take("work")
	f.world.advance(7 * time.Minute)
	f.take("work")
	f.world.advance(62 * time.Second)
	if d, err := f.Receive(t.Context(), "work", 10, 0); err != nil || len(d) != 1 || d[0].Attempt != 1 || !d[0].NotBefore.Equal(at) || string(d[0].Body) != "x" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestExtendHidesForAnotherVisibility(t *testing.T) {
	f := start(t, false)
	f.publish("test.work.v1", "g", "a")
	d := f.take("work", "a")[0]
	for range 3 {
		f.world.advance(100 * time.Second)
		f.must(f.Extend(t.Context(), "work", d.Receipt))
		f.take("work")
	}
	f.must(f.Ack(t.Context(), "work", d.Receipt))
}

func TestAnOrderedGroupComesOneByOne(t *testing.T) {
	f := start(t, true)
	f.publish("test.work.v1", "g", "1", "2", "3")
	f.publish("test.work.v1", "h", "4")
	d := f.take("work", "1", "4")
	f.take("work")
	for _, d := range d {
		f.must(f.Ack(t.Context(), "work", d.Receipt))
	}
	f.must(f.Reject(t.Context(), "work", f.take("work", "2")[0].Receipt, "no good"))
	f.must(f.Ack(t.Context(), "work", f.take("work", "3")[0].Receipt))
	if n, err := f.Redrive(t.Context(), "work"); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	f.take("work", "2")
}

func TestWhatPubSubItselfGaveUpIsALetterLikeAnyOther(t *testing.T) {
	f := start(t, false)
	_, err := f.world.config.Topics.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: "projects/p/topics/tw-dead", Messages: []*pubsubpb.PubsubMessage{{
		Data: []byte("{}"), Attributes: map[string]string{
			"id": "a", "type": "test.work.v1", "queue": "work", "CloudPubSubDeadLetterSourceSubscription": "tw-work", "CloudPubSubDeadLetterSourceDeliveryCount": "8",
		},
	}}})
	f.must(err)
	if l := f.letter("work", "a"); l.Attempts != 8 || !strings.Contains(l.Reason, "no answer") || l.At.IsZero() {
		t.Errorf("%+v", l)
	}
	if n, err := f.Redrive(t.Context(), "", "a"); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	f.take("work", "a")
}

func TestWhatIsNoMessageIsADeadLetter(t *testing.T) {
	f := start(t, false)
	_, err := f.world.config.Topics.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: "projects/p/topics/tw-events", Messages: []*pubsubpb.PubsubMessage{{
		Data: []byte("hello"), Attributes: map[string]string{"queue": "work"},
	}}})
	f.must(err)
	f.take("work")
	letters, err := f.DeadLetters(t.Context(), "work", 10)
	if err != nil || len(letters) != 1 || string(letters[0].Body) != "hello" || letters[0].ID == "" || !strings.Contains(letters[0].Reason, "unreadable") {
		t.Errorf("%+v, %v", letters, err)
	}
}

func TestSubscriptionsHaveTheRulesOfTheirQueues(t *testing.T) {
	f := start(t, false)
	f.must(pubsub.Provision(t.Context(), f.world.config)) // again is as good
	s, err := f.world.config.Subscriptions.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: "projects/p/subscriptions/tw-work"})
	f.must(err)
	if s.Filter != `attributes.queue = "work"` || len(s.Filter) > 256 || s.AckDeadlineSeconds != 120 || s.EnableMessageOrdering ||
		s.RetryPolicy.MinimumBackoff.AsDuration() != time.Minute || s.RetryPolicy.MaximumBackoff.AsDuration() != 2*time.Minute ||
		s.DeadLetterPolicy.DeadLetterTopic != "projects/p/topics/tw-dead" || s.DeadLetterPolicy.MaxDeliveryAttempts != 8 {
		t.Errorf("%+v", s)
	}
}

func TestWithoutAGaugeDepthIsUnknown(t *testing.T) {
	w := newWorld(t, setup(), false)
	w.config.Depth = nil
	if _, err := w.open(t).Depth(t.Context(), "work"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestConsumersSideBySide publishes while consumers take, fail, reject and redrive: in the end each message was handled.
func TestConsumersSideBySide(t *testing.T) {
	f := start(t, false)
	const publishers, each, consumers = 4, 100, 8
	var mu sync.Mutex
	handled := make(map[string]int)
	left := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) < publishers*each
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				m := bus.Message{ID: fmt.Sprintf("%d/%d", p, i), Type: "test.work.v1", Group: fmt.Sprint(i % 7), Body: []byte("{}")}
				if err := f.Publish(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for c := range consumers {
		wg.Go(func() {
			for n := c; left(); n++ {
				d, err := f.Receive(t.Context(), "work", 5, 0)
				if err != nil {
					t.Error(err)
					return
				}
				for i, d := range d {
					switch {
					case (n+i)%7 == 0:
						err = f.Reject(t.Context(), "work", d.Receipt, "no good")
					case (n+i)%5 == 0:
						err = f.Nack(t.Context(), "work", d.Receipt, "again")
					default:
						err = f.Ack(t.Context(), "work", d.Receipt)
						mu.Lock()
						handled[d.ID]++
						mu.Unlock()
					}
					if err != nil && !errors.Is(err, bus.ErrStaleReceipt) {
						t.Error(err)
					}
				}
				if len(d) == 0 {
					f.world.advance(time.Second)
					if _, err := f.Redrive(t.Context(), "work"); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for id, n := range handled {
		if n > 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
}

package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

// setup returns a deployment of two queues with times far longer than a test.
func setup() bustest.Setup {
	return bustest.Setup{
		Queues: []bus.QueueConfig{
			{Name: "work", Visibility: time.Hour, MaxAttempts: 4, BackoffMin: 10 * time.Minute, BackoffMax: 30 * time.Minute},
			{Name: "audit", Visibility: time.Hour, MaxAttempts: 1},
		},
		Route: bus.Route{"test.work.v1": {"work"}, "test.both.v1": {"work", "audit"}, "test.news.v1": {}},
	}
}

// fixture is a bus on a moto whose clock the test controls.
type fixture struct {
	*testing.T
	*aws.Bus
	world  *world
	config aws.Config
}

func start(t *testing.T, change func(*aws.Config)) *fixture {
	t.Helper()
	w := moto(t)
	c := w.deployment(t, setup())
	if change != nil {
		change(&c)
	}
	return &fixture{T: t, Bus: open(t, c), world: w, config: c}
}

func (f *fixture) publish(typ string, ids ...string) {
	f.Helper()
	var list []bus.Message
	for _, id := range ids {
		list = append(list, bus.Message{ID: id, Type: typ, Group: "job", Body: fmt.Appendf(nil, `{"id":%q}`, id)})
	}
	if err := f.Publish(f.Context(), list...); err != nil {
		f.Fatal(err)
	}
}

// take receives exactly these messages, in any order. It returns them in the order of ids.
func (f *fixture) take(queue string, ids ...string) []bus.Delivery {
	f.Helper()
	d, err := f.Receive(f.Context(), queue, 100, 0)
	if err != nil {
		f.Fatal(err)
	}
	slices.SortFunc(d, func(a, b bus.Delivery) int { return strings.Compare(a.ID, b.ID) })
	var got []string
	for _, d := range d {
		got = append(got, d.ID)
	}
	if !slices.Equal(got, ids) {
		f.Fatalf("received %q of %s, want %q", got, queue, ids)
	}
	return d
}

func (f *fixture) letters(queue string, ids ...string) []bus.DeadLetter {
	f.Helper()
	letters, err := f.DeadLetters(f.Context(), queue, 100)
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, l := range letters {
		got = append(got, l.ID)
	}
	if !slices.Equal(got, ids) {
		f.Fatalf("dead letters of %q are %q, want %q", queue, got, ids)
	}
	return letters
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func TestUnansweredDeliveryIsRepeatedAndReceiptIsStale(t *testing.T) {
	f := start(t, nil)
	f.publish("test.work.v1", "a")
	first := f.take("work", "a")[0]
	f.world.advance(t, 50*time.Minute)
	f.take("work")
	f.world.advance(t, 11*time.Minute)
	second := f.take("work", "a")[0]
	if first.Attempt != 1 || second.Attempt != 2 {
		t.Errorf("attempts %d and %d", first.Attempt, second.Attempt)
	}
	for name, err := range map[string]error{
		"Ack": f.Ack(t.Context(), "work", first.Receipt), "Nack": f.Nack(t.Context(), "work", first.Receipt, ""),
		"Reject": f.Reject(t.Context(), "work", first.Receipt, ""), "Extend": f.Extend(t.Context(), "work", first.Receipt),
	} {
		if !errors.Is(err, bus.ErrStaleReceipt) {
			t.Errorf("%s = %v", name, err)
		}
	}
	f.letters("")
	f.must(f.Ack(t.Context(), "work", second.Receipt))
}

func TestBackoffDoublesAndTheLastFailureIsADeadLetter(t *testing.T) {
	f := start(t, nil)
	f.publish("test.work.v1", "a")
	for i, wait := range []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute} {
		d := f.take("work", "a")[0]
		if d.Attempt != i+1 {
			t.Errorf("attempt %d has number %d", i+1, d.Attempt)
		}
		f.must(f.Nack(t.Context(), "work", d.Receipt, "not yet"))
		f.world.advance(t, wait-time.Minute)
		f.take("work")
		f.world.advance(t, 61*time.Second)
	}
	f.must(f.Nack(t.Context(), "work", f.take("work", "a")[0].Receipt, "never"))
	l := f.letters("work", "a")[0]
	if l.Reason != "never" || l.Attempts != 4 {
		t.Errorf("%+v", l)
	}
}

func TestUnansweredLastDeliveryIsDeadLetterAndCanBeRedriven(t *testing.T) {
	f := start(t, nil)
	f.publish("test.both.v1", "a")
	f.take("audit", "a")
	f.world.advance(t, 61*time.Minute)
	f.take("audit") // this receive makes SQS move the message
	l := f.letters("audit", "a")[0]
	if l.Attempts != 1 || !strings.Contains(l.Reason, "no answer within 1h") || l.At.IsZero() {
		t.Errorf("%+v", l)
	}
	if n, err := f.Redrive(t.Context(), "", "a"); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	if d := f.take("audit", "a")[0]; d.Attempt != 1 {
		t.Errorf("attempt %d after a redrive", d.Attempt)
	}
	f.letters("")
}

func TestDelayMayExceedSQSMaximum(t *testing.T) {
	f := start(t, nil)
	at := f.world.Now().Add(40 * time.Minute)
	m := bus.Message{ID: "later", Type: "test.both.v1", Body: []byte(`{}`), NotBefore: at}
	f.must(f.Publish(t.Context(), m))
	for range 3 { // 0, 13, 26, 39 minutes
		f.take("work")
		if n, err := f.Depth(t.Context(), "work"); n != 1 || err != nil {
			t.Fatalf("depth %d, %v", n, err)
		}
		f.world.advance(t, 13*time.Minute)
	}
	f.take("work")
	f.world.advance(t, 15*time.Minute)
	for _, queue := range []string{"work", "audit"} {
		if d := f.take(queue, "later")[0]; d.Attempt != 1 || !d.NotBefore.Equal(at) {
			t.Errorf("%+v", d)
		}
	}
}

func TestExtendHidesForAnotherVisibility(t *testing.T) {
	f := start(t, nil)
	f.publish("test.work.v1", "a")
	d := f.take("work", "a")[0]
	for range 3 {
		f.world.advance(t, 50*time.Minute)
		f.must(f.Extend(t.Context(), "work", d.Receipt))
		f.take("work")
	}
	f.must(f.Ack(t.Context(), "work", d.Receipt))
}

func TestReceiveWaitsForMessage(t *testing.T) {
	f := start(t, nil)
	type result struct {
		d   []bus.Delivery
		err error
	}
	// Without a custom clock, the bus lets SQS wait. The serial transport would then block the publisher.
	c := f.config
	cfg := f.world.config(nil)
	c = withClients(c, cfg)
	waiting := open(t, c)
	done := make(chan result)
	go func() {
		d, err := waiting.Receive(t.Context(), "work", 1, time.Minute)
		done <- result{d, err}
	}()
	f.publish("test.work.v1", "a")
	if r := <-done; r.err != nil || len(r.d) != 1 || r.d[0].ID != "a" {
		t.Errorf("%+v", r)
	}
}

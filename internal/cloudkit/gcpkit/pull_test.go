package gcpkit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
)

const (
	topic        = "projects/demo/topics/files"
	subscription = "projects/demo/subscriptions/files"
)

// pulls is a broker that pulls from a subscription of Google's own fake of Pub/Sub.
type pulls struct {
	*testing.T
	server *pstest.Server
	log    *journal
	told   chan push.News
	refuse func(push.News) error // nil: all messages are accepted
}

// journal is a log that tests read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), text)
}

func newPulls(t *testing.T) *pulls {
	t.Helper()
	p := &pulls{T: t, server: pstest.NewServer(), log: &journal{}, told: make(chan push.News, 100)}
	t.Cleanup(func() { _ = p.server.Close() })
	if _, err := p.server.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pulls) subscribe() {
	p.Helper()
	_, err := p.server.GServer.CreateSubscription(p.Context(), &pubsubpb.Subscription{Name: subscription, Topic: topic,
		AckDeadlineSeconds: 10})
	if err != nil {
		p.Fatal(err)
	}
}

// start starts to pull from the server, or from a proxy of it at another address. stop stops it.
func (p *pulls) start(address string) (stop func()) {
	p.Helper()
	o, err := gcpkit.Kit().Open(p.Context(), cloudkit.Request{Deployment: "tw", PublicURL: broker,
		Log: slog.New(slog.NewTextHandler(p.log, nil)),
		Settings: cloudkit.Settings{Project: "demo", Endpoint: "http://127.0.0.1:1", Pull: "files", PubSub: address,
			DAGs: "gs://acme-jobs/dags"}})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.Context())
	var done sync.WaitGroup
	done.Go(func() {
		o.Pull(ctx, func(_ context.Context, n push.News) error {
			if p.refuse != nil {
				if err := p.refuse(n); err != nil {
					return err
				}
			}
			p.told <- n
			return nil
		})
	})
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	p.Cleanup(stop)
	return stop
}

// file publishes a message about a new file in the folder, and returns the message's ID.
func (p *pulls) file(name string) string {
	return p.server.Publish(topic, []byte(`{"bucket":"acme-jobs","name":"dags/`+name+
		`","generation":"7","md5Hash":"x","size":"3"}`), map[string]string{"eventType": "OBJECT_FINALIZE"})
}

// next returns the name of the next file that the broker learns of.
func (p *pulls) next() string {
	p.Helper()
	select {
	case n := <-p.told:
		return strings.TrimPrefix(n.Object.Key, "dags/")
	case <-time.After(20 * time.Second):
		p.Fatalf("nothing was delivered\n%s", p.log.text.String())
		return ""
	}
}

func (p *pulls) await(what string, ok func() bool) {
	p.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("not in time: %s\n%s", what, p.log.text.String())
		}
	}
}

func (p *pulls) acked(id string) bool { return p.server.Message(id).Acks > 0 }

// A message must be acknowledged only after its effect is committed. If the broker ends in between, Pub/Sub delivers
// the message again (Pub/Sub documentation, "Subscription properties", section "Acknowledgment deadline").
func TestPullAcknowledgesAfterDelivery(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	begun, commit := make(chan struct{}), make(chan struct{})
	p.refuse = func(push.News) error {
		close(begun)
		<-commit
		return nil
	}
	p.start(p.server.Addr)
	id := p.file("a.yaml")
	<-begun
	if p.acked(id) {
		t.Error("acknowledged before it was delivered")
	}
	close(commit)
	p.next()
	p.await("the acknowledgement", func() bool { return p.acked(id) })
}

// The broker cannot store a message. It must return the message, which is then delivered again long before its
// deadline of 10 seconds. Other messages must not be delayed.
func TestPullRedeliversFailedMessage(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	var mu sync.Mutex
	tries := 0
	p.refuse = func(n push.News) error {
		mu.Lock()
		defer mu.Unlock()
		if n.Object.Key != "dags/bad.yaml" {
			return nil
		}
		if tries++; tries < 3 {
			return errors.New("the table is full")
		}
		return nil
	}
	began := time.Now()
	p.start(p.server.Addr)
	bad, good := p.file("bad.yaml"), p.file("good.yaml")
	if first, second := p.next(), p.next(); first != "good.yaml" || second != "bad.yaml" {
		t.Errorf("delivered %s, then %s", first, second)
	}
	p.await("both acknowledgements", func() bool { return p.acked(bad) && p.acked(good) })
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("it took %v", took)
	}
	if !p.log.has("the table is full") {
		t.Errorf("the failure is not logged:\n%s", p.log.text.String())
	}
}

// Some messages waited while no broker ran, some are delivered twice, and one cannot be read. All must be handled.
func TestPullHandlesLateDuplicateAndUnreadableMessages(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	ids := []string{p.file("late.yaml"), p.file("late.yaml")}
	ids = append(ids, p.server.Publish(topic, []byte("nonsense"), map[string]string{"eventType": "OBJECT_FINALIZE"}),
		p.server.Publish(topic, []byte("nonsense"), nil))
	stop := p.start(p.server.Addr)
	if first, second := p.next(), p.next(); first != "late.yaml" || second != "late.yaml" {
		t.Errorf("delivered %s, %s", first, second)
	}
	for _, id := range ids {
		p.await("acknowledgement of "+id, func() bool { return p.acked(id) })
	}
	if !p.log.has("ignored an unreadable message") {
		t.Errorf("log:\n%s", p.log.text.String())
	}
	stop()
	again := p.file("again.yaml")
	p.start(p.server.Addr)
	if got := p.next(); got != "again.yaml" {
		t.Errorf("a new broker got %s", got)
	}
	p.await("its acknowledgement", func() bool { return p.acked(again) })
}

// The subscription does not exist yet. The broker must keep trying, and the log must say how to create it.
func TestPullWaitsForMissingSubscription(t *testing.T) {
	p := newPulls(t)
	p.start(p.server.Addr)
	p.await("a warning", func() bool { return p.log.has("gcloud pubsub subscriptions create files") })
	p.subscribe()
	p.file("a.yaml")
	if got := p.next(); got != "a.yaml" {
		t.Errorf("delivered %s", got)
	}
}

// The connection is lost. It must be made again, and messages that were published meanwhile must be delivered.
func TestPullReconnects(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	line := newLine(t, p.server.Addr)
	p.start(line.Addr().String())
	p.file("before.yaml")
	if got := p.next(); got != "before.yaml" {
		t.Fatal(got)
	}
	for range 2 {
		line.cut()
		p.file("meanwhile.yaml")
		if got := p.next(); got != "meanwhile.yaml" {
			t.Errorf("delivered %s", got)
		}
	}
}

// At most 16 messages may be delivered at the same time. When a broker stops, the messages that it has not delivered
// must reach another broker: at once, or after a lease of ten seconds if the fake has already sent them to the ending
// stream.
func TestPullLimitsConcurrentMessages(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	const most, all = 16, 40
	begun := make(chan struct{}, all)
	release := make(chan struct{})
	p.refuse = func(push.News) error {
		begun <- struct{}{}
		<-release
		return errors.New("the broker stops")
	}
	for range all {
		p.file("a.yaml")
	}
	stop := p.start(p.server.Addr)
	for range most {
		<-begun
	}
	select {
	case <-begun:
		t.Error("more messages than the limit are delivered at once")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	stop()
	p.refuse = nil
	p.start(p.server.Addr)
	for range all {
		p.next()
	}
}

// The broker cannot reach Pub/Sub. It must be able to stop in time, even if it has not acknowledged a message.
func TestPullStopsWithoutConnection(t *testing.T) {
	p := newPulls(t)
	p.subscribe()
	line := newLine(t, p.server.Addr)
	begun, commit := make(chan struct{}), make(chan struct{})
	p.refuse = func(push.News) error {
		close(begun)
		<-commit
		return nil
	}
	stop := p.start(line.Addr().String())
	p.file("a.yaml")
	<-begun
	_ = line.Close()
	line.cut()
	close(commit)
	p.next()
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

// line is a connection to a server that tests cut.
type line struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listen}
	t.Cleanup(func() { _ = listen.Close(); l.cut() })
	go func() {
		for {
			from, err := listen.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				return
			}
			l.mu.Lock()
			l.open = append(l.open, from, server)
			l.mu.Unlock()
			go func() { _, _ = io.Copy(server, from); _ = server.Close() }()
			go func() { _, _ = io.Copy(from, server); _ = from.Close() }()
		}
	}()
	return l
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

package hooks_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/hooks"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// topic counts published messages.
type topic int

func (t *topic) Publish(context.Context, *sns.PublishInput, ...func(*sns.Options)) (*sns.PublishOutput, error) {
	*t++
	return &sns.PublishOutput{}, nil
}

// If a webhook is unavailable, the message is delivered again, up to twenty times. Other receivers do not get it twice.
func TestNotifiesEachRecipientOnce(t *testing.T) {
	status, posts := http.StatusServiceUnavailable, 0
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts++
		w.WriteHeader(status)
	}))
	defer webhook.Close()
	var published topic
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	k := &hooks.Hook{SNS: &published, Topic: "arn", Webhook: webhook.URL, HTTP: webhook.Client(), Store: mem.New(),
		Now: func() time.Time { return at }}
	e := events.New("e1", "test", at, events.DAGFinished{Job: "j", Name: "job", Outcome: "succeeded"})
	for n := range 3 {
		if err := k.Notify(t.Context(), e); err == nil {
			t.Fatalf("try %d: no error although the webhook is unavailable", n)
		}
	}
	status = http.StatusNoContent
	if err := k.Notify(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if published != 1 || posts != 4 {
		t.Errorf("the topic got %d messages, the webhook %d", published, posts)
	}
	e.ID = "e2"
	if err := k.Notify(t.Context(), e); err != nil || published != 2 || posts != 5 {
		t.Errorf("another event: %d, %d, %v", published, posts, err)
	}
}

// topics records the messages on the topics of jobs.
type topics struct {
	err       error
	published []map[string]string
}

func (a *topics) Announce(_ context.Context, topic string, _ []byte, attributes map[string]string) error {
	attributes["topic"] = topic
	a.published = append(a.published, attributes)
	return a.err
}

// The topic that a job names gets the event of the job's end once, however often other deliveries are retried. If it
// fails, the event is retried and becomes a dead letter, as for a webhook.
func TestNotifiesTopicOfJob(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var published topic
	a := &topics{err: errors.New("no such topic")}
	k := &hooks.Hook{SNS: &published, Topic: "arn", Announcer: a, Store: mem.New(), Now: func() time.Time { return at }}
	e := events.New("e1", "test", at, events.DAGFinished{Job: "j", Outcome: "failed", Announce: "pubsub://acme/jobs"})
	if err := k.Notify(t.Context(), e); !errors.Is(err, a.err) {
		t.Errorf("a missing topic: %v", err)
	}
	a.err = nil
	if err := k.Notify(t.Context(), e); err != nil || published != 1 || len(a.published) != 2 {
		t.Errorf("%v: SNS %d, topic %d", err, published, len(a.published))
	}
	// Google Cloud Pub/Sub Protocol Binding for CloudEvents 1.0, section 3.2.1
	for name, want := range map[string]string{"topic": "pubsub://acme/jobs", "outcome": "failed", "ce-id": "e1",
		"ce-type": events.TypeDAGFinished, "content-type": "application/cloudevents+json; charset=utf-8"} {
		if got := a.published[1][name]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	e = events.New("e2", "test", at, events.DAGFinished{Job: "j"})
	if err := k.Notify(t.Context(), e); err != nil || len(a.published) != 2 {
		t.Errorf("a job without a topic: %v, %d", err, len(a.published))
	}
}

package hooks_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/hooks"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// topic counts what is published.
type topic int

func (t *topic) Publish(context.Context, *sns.PublishInput, ...func(*sns.Options)) (*sns.PublishOutput, error) {
	*t++
	return &sns.PublishOutput{}, nil
}

// A webhook that is away has the news come again, up to twenty times: who was told already is not told again.
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
			t.Fatalf("try %d: the webhook is away, and nobody says so", n)
		}
	}
	status = http.StatusNoContent
	if err := k.Notify(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if published != 1 || posts != 4 {
		t.Errorf("the topic was told %d times, the webhook %d", published, posts)
	}
	e.ID = "e2"
	if err := k.Notify(t.Context(), e); err != nil || published != 2 || posts != 5 {
		t.Errorf("another event: %d, %d, %v", published, posts, err)
	}
}

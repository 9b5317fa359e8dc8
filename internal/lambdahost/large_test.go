package lambdahost_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	buslocal "github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func TestUnpublishableEventDoesNotBlockOthers(t *testing.T) {
	b, err := buslocal.NewMemory(buslocal.Config{Queues: lambdahost.QueueRules(), Route: events.Routes()})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, events.FnReconcile, func(with *setup) { with.Bus = b })
	body, err := events.New("large", "tradewind/test", nine.Add(-2*time.Minute), events.DAGReplan{Job: "a",
		Reason: strings.Repeat("exceeded quota ", 20_000)}).MarshalJSON()
	if err != nil || len(body) <= bus.MaxMessageBytes || len(body) > store.MaxItemBytes {
		t.Fatal(len(body), err)
	}
	err = r.store.Commit(context.Background(), store.Tx{Events: []store.Event{{ID: "large", Body: body}}})
	if err != nil {
		t.Fatal(err)
	}
	r.commit("small", nine.Add(-time.Minute))
	for range 3 {
		_ = r.sandbox.PublishLeft(t.Context())
	}
	for _, e := range r.store.Pending() {
		t.Errorf("%s is never published", e.ID)
	}
}

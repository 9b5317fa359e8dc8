package lambdahost_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// sink records published events.
type sink struct {
	bus.Bus
	ids  []string
	deaf error
}

func (w *sink) Publish(_ context.Context, messages ...bus.Message) error {
	if w.deaf != nil {
		return w.deaf
	}
	for _, m := range messages {
		w.ids = append(w.ids, m.ID)
	}
	return nil
}

// commit puts an event into the outbox with a given time.
func (r *rig) commit(id string, at time.Time) {
	r.Helper()
	body, err := events.New(id, "tradewind/test", at, events.DAGSubmitted{Job: "a"}).MarshalJSON()
	if err != nil {
		r.Fatal(err)
	}
	tx := store.Tx{Events: []store.Event{{ID: id, Body: body}}}
	if err := r.store.Commit(context.Background(), tx); err != nil {
		r.Fatal(err)
	}
}

func TestReconcilePublishesLeftovers(t *testing.T) {
	sent := &sink{}
	r := newRig(t, events.FnReconcile, func(with *setup) { with.Bus = sent })
	r.commit("old", nine.Add(-time.Minute))
	r.commit("young", nine.Add(-time.Second))
	if err := r.sandbox.PublishLeft(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sent.ids, []string{"old"}) {
		t.Errorf("published %v", sent.ids)
	}
	if left := r.store.Pending(); len(left) != 1 || left[0].ID != "young" {
		t.Errorf("left %v", left)
	}
	// If the bus is unavailable, the batch is delivered again.
	sent.deaf = errors.New("away")
	r.commit("older", nine.Add(-time.Hour))
	if err := r.sandbox.PublishLeft(t.Context()); !errors.Is(err, sent.deaf) {
		t.Errorf("%v, want %v", err, sent.deaf)
	}
}

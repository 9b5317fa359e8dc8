package lambdahost_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// wire notes what is published.
type wire struct {
	bus.Bus
	ids  []string
	deaf error
}

func (w *wire) Publish(_ context.Context, messages ...bus.Message) error {
	if w.deaf != nil {
		return w.deaf
	}
	for _, m := range messages {
		w.ids = append(w.ids, m.ID)
	}
	return nil
}

// commit puts an event in the outbox as if at a time.
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

func TestReconcilePublishesWhatTheRelayLeft(t *testing.T) {
	sent := &wire{}
	settled := 0
	r := newRig(t, events.FnReconcile, func(h *lambdahost.Host) error {
		h.Ports.Bus = sent
		h.After = func(context.Context) error { settled++; return nil }
		return nil
	}, lambdahost.Leftovers)
	r.commit("old", nine.Add(-time.Minute))
	r.commit("young", nine.Add(-time.Second))
	if err := r.host.After(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sent.ids, []string{"old"}) || settled != 1 {
		t.Errorf("published %v, and what follows ran %d times", sent.ids, settled)
	}
	if left := r.store.Pending(); len(left) != 1 || left[0].ID != "young" {
		t.Errorf("left %v", left)
	}
	// Where the bus is away the batch comes again, and what follows is done nevertheless.
	sent.deaf = errors.New("away")
	r.commit("older", nine.Add(-time.Hour))
	if err := r.host.After(t.Context()); !errors.Is(err, sent.deaf) || settled != 2 {
		t.Errorf("%v, and what follows ran %d times", err, settled)
	}
}

package outbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/outbox"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

func event(t *testing.T, id string, data events.Data) store.Event {
	t.Helper()
	body, err := events.New(id, "tradewind/test", time.Unix(0, 0), data).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return store.Event{ID: id, Body: body}
}

func TestOnlyWhatSomebodyHearsIsKept(t *testing.T) {
	s := mem.New()
	tx := store.Tx{
		Writes: []store.Write{{Key: store.Key{Partition: "p", Sort: "s"}, Expect: store.Absent, Body: []byte("x")}},
		Events: []store.Event{
			event(t, "started", events.TaskStarted{Job: "j"}), event(t, "ready", events.TaskReady{Job: "j"}),
			event(t, "blocked", events.LocationBlocked{Cloud: "aws"}), {ID: "broken", Body: []byte("{")}, {ID: "odd", Body: []byte(`{"type":"tradewind.odd.v1"}`)},
		},
	}
	if err := outbox.DropUnheard(s).Commit(context.Background(), tx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Pending() {
		got = append(got, e.ID)
	}
	if len(got) != 3 || got[0] != "ready" || got[1] != "broken" || got[2] != "odd" {
		t.Errorf("kept %v", got)
	}
	if len(tx.Events) != 5 || tx.Events[0].ID != "started" {
		t.Error("the caller's transaction was changed")
	}
	if r, err := s.Get(context.Background(), tx.Writes[0].Key); err != nil || len(r) != 1 {
		t.Errorf("the record: %v %v", r, err)
	}
}

func TestNothingLeftIsNoTransaction(t *testing.T) {
	tx := store.Tx{Events: []store.Event{event(t, "started", events.TaskStarted{Job: "j"})}}
	if err := outbox.DropUnheard(mem.New()).Commit(context.Background(), tx); err != nil {
		t.Error(err)
	}
}

package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var outboxTests = map[string]func(*testing.T, store.Store){
	"events stay until they are published":                testEventsStay,
	"the same ID replaces the pending event":              testEventReplaced,
	"a published ID may be committed again":               testEventAgain,
	"unknown IDs are ignored":                             testPublishedUnknown,
	"Outbox returns at most its limit":                    testOutboxLimit,
	"events of one transaction keep their order":          testEventOrderInTx,
	"event IDs with odd bytes are distinct":               testOddEventIDs,
	"a relay during many writes loses nothing":            testRelayBesideWriters,
	"publishing does not affect records of the same name": testOutboxApart,
	"a bulky outbox is read in pieces and completely":     testOutboxBulk,
}

func wantOutbox(t testing.TB, s store.Store, want ...string) {
	t.Helper()
	got := eventIDs(outbox(t, s, len(want)+10))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Outbox = %q, want %q", got, want)
	}
}

func testEventsStay(t *testing.T, s store.Store) {
	emit(t, s, event("a", "body of a"), event("b", "body of b"))
	emit(t, s, event("c", "body of c"))
	for range 3 { // reading does not publish
		wantOutbox(t, s, "a", "b", "c")
	}
	for _, e := range outbox(t, s, 10) {
		if string(e.Body) != "body of "+e.ID {
			t.Errorf("event %q has body %q", e.ID, e.Body)
		}
	}
	published(t, s, "b")
	wantOutbox(t, s, "a", "c")
	published(t, s, "a", "c")
	wantOutbox(t, s)
}

func testEventReplaced(t *testing.T, s store.Store) {
	emit(t, s, event("a", "first, and longer"), event("b", "b"))
	emit(t, s, event("a", "second"))
	wantOutbox(t, s, "a", "b")
	for _, e := range outbox(t, s, 10) {
		if e.ID == "a" && string(e.Body) != "second" {
			t.Errorf("the event is %q", e.Body)
		}
	}
	published(t, s, "a")
	wantOutbox(t, s, "b")
}

func testEventAgain(t *testing.T, s store.Store) {
	for i := range 3 {
		body := fmt.Sprint("round ", i)
		emit(t, s, event("a", body))
		if e := outbox(t, s, 10); len(e) != 1 || e[0].ID != "a" || string(e[0].Body) != body {
			t.Fatalf("Outbox = %v, want a with %q", e, body)
		}
		published(t, s, "a")
		wantOutbox(t, s)
	}
}

func testPublishedUnknown(t *testing.T, s store.Store) {
	published(t, s, "unknown")
	emit(t, s, event("a", "x"), event("aa", "x"))
	published(t, s, "unknown", "a", "", "a", "\xff")
	wantOutbox(t, s, "aa")
}

func testOutboxLimit(t *testing.T, s store.Store) {
	for i := range 10 {
		emit(t, s, event(fmt.Sprint(i), "x"))
	}
	for _, limit := range []int{1, 3, 9, 10, 11} {
		if n := len(outbox(t, s, limit)); n != min(limit, 10) {
			t.Errorf("Outbox of %d = %d events", limit, n)
		}
	}
	if e := drain(t, s); len(e) != 10 {
		t.Errorf("%d events in total", len(e))
	}
}

func testEventOrderInTx(t *testing.T, s store.Store) {
	want := []string{"z", "a", "m", "b", "10", "9"}
	var events []store.Event
	for _, id := range want {
		events = append(events, event(id, "x"))
	}
	emit(t, s, events...)
	if got := eventIDs(outbox(t, s, 10)); !slices.Equal(got, want) {
		t.Errorf("Outbox = %q, want %q", got, want)
	}
}

func testOddEventIDs(t *testing.T, s store.Store) {
	for i, id := range oddKeys {
		emit(t, s, event(id, fmt.Sprint(i)))
	}
	wantOutbox(t, s, slices.Clone(oddKeys)...)
	for _, e := range outbox(t, s, len(oddKeys)) {
		if i := slices.Index(oddKeys, e.ID); string(e.Body) != fmt.Sprint(i) {
			t.Errorf("event %q has body %q, want %d", e.ID, e.Body, i)
		}
	}
	published(t, s, oddKeys[1:]...)
	wantOutbox(t, s, oddKeys[0])
}

func testRelayBesideWriters(t *testing.T, s store.Store) {
	const events = 25
	writing, done := context.WithCancel(t.Context())
	relayed := make(map[string]int)
	var relay sync.WaitGroup
	relay.Go(func() {
		for {
			last := writing.Err() != nil // checked before Outbox: if true, no event comes after it
			batch, err := s.Outbox(t.Context(), 7)
			if err != nil {
				t.Errorf("Outbox: %v", err)
				return
			}
			for _, e := range batch {
				relayed[e.ID]++
			}
			if err := s.Published(t.Context(), eventIDs(batch)...); err != nil {
				t.Errorf("Published: %v", err)
				return
			}
			if last && len(batch) == 0 {
				return
			}
		}
	})
	inParallel(t, func(ctx context.Context, worker int) error {
		for i := range events {
			id := fmt.Sprintf("%d-%d", worker, i)
			err := retry(ctx, conflicting, func() error {
				return s.Commit(ctx, store.Tx{Events: []store.Event{event(id, id)}})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	done()
	relay.Wait()
	if len(relayed) != workers*events {
		t.Errorf("%d events relayed, want %d", len(relayed), workers*events)
	}
	for id, n := range relayed {
		if n != 1 { // one relay, which calls Published before the next Outbox
			t.Errorf("event %s came %d times", id, n)
		}
	}
}

func testOutboxApart(t *testing.T, s store.Store) {
	k := key("outbox", "e")
	if err := s.Commit(t.Context(), store.Tx{Writes: []store.Write{put(k, store.Absent, "record")},
		Events: []store.Event{event("e", "event")}}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	commit(t, s, del(key("e", "e"), store.Any))
	published(t, s, "e")
	wantRecord(t, s, k, 1, "record")
	commit(t, s, del(k, 1))
	emit(t, s, event("outbox", "x"))
	wantOutbox(t, s, "outbox")
}

func testOutboxBulk(t *testing.T, s store.Store) {
	const n = 12
	body := patterned(200 << 10)
	for i := range n {
		emit(t, s, store.Event{ID: fmt.Sprintf("%02d", i), Body: body})
	}
	events := drain(t, s)
	if len(events) != n {
		t.Errorf("%d events, want %d", len(events), n)
	}
	for _, e := range events {
		if !slices.Equal(e.Body, body) {
			t.Errorf("event %s has another body", e.ID)
		}
	}
}

func (s *suite) testOutboxOrder(t *testing.T) {
	if s.unordered {
		t.Skip("the driver does not know the order of transactions")
	}
	st := s.store(t)
	var want []string
	for i := range 30 {
		id := fmt.Sprint((i * 17) % 30) // not in the order of the IDs
		want = append(want, id)
		emit(t, st, event(id, "x"))
	}
	if got := eventIDs(outbox(t, st, 30)); !slices.Equal(got, want) {
		t.Errorf("Outbox = %q, want %q", got, want)
	}
	published(t, st, want[0], want[7], want[29])
	want = slices.Concat(want[1:7], want[8:29])
	if got := eventIDs(outbox(t, st, 30)); !slices.Equal(got, want) {
		t.Errorf("Outbox = %q, want %q", got, want)
	}
	emit(t, st, event("late", "x"))
	if got := eventIDs(outbox(t, st, 40)); !slices.Equal(got, append(want, "late")) {
		t.Errorf("Outbox = %q, want %q and late", got, want)
	}
}

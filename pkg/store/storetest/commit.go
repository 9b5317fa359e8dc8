package storetest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var commitTests = map[string]func(*testing.T, store.Store){
	"a put of a missing record creates version 1":           testPutAbsent,
	"versions count the writes":                             testVersionsCount,
	"a put that expects absence conflicts with a record":    testPutExpectsAbsence,
	"a put that expects a version conflicts with any other": testPutExpectsVersion,
	"a put of any version always works":                     testPutAny,
	"a delete removes":                                      testDelete,
	"a delete conflicts with any other version":             testDeleteExpects,
	"a deleted record can be written again":                 testWriteAgain,
	"a check asserts and changes nothing":                   testCheck,
	"a conflict names every key in order":                   testConflictNamesKeys,
	"a conflict writes nothing of its transaction":          testConflictLeavesNothing,
	"an empty transaction does nothing":                     testEmptyTx,
	"an empty body is stored":                               testEmptyBody,
	"slices are not shared with the caller":                 testBodyIsolation,
	"a record and its event are stored together":            testRecordAndEvent,
	"expiry is stored in seconds, rounded up":               testExpiryRoundTrip,
	"Get returns existing records in the order of keys":     testGetOrder,
	"Get of nothing returns nothing":                        testGetNothing,
}

func testPutAbsent(t *testing.T, s store.Store) {
	k := key("job/1", "task/a")
	commit(t, s, put(k, store.Absent, "body"))
	wantRecord(t, s, k, 1, "body")
	r := get(t, s, k)[0]
	if !r.Expires.IsZero() {
		t.Errorf("expires %v, want never", r.Expires)
	}
}

func testVersionsCount(t *testing.T, s store.Store) {
	k, other := key("p", "counted"), key("p", "other")
	commit(t, s, put(k, store.Absent, "1"), put(other, store.Absent, "1"))
	commit(t, s, put(k, 1, "2"))
	commit(t, s, put(k, store.Any, "3"), check(other, 1))
	wantRecord(t, s, k, 3, "3")
	wantRecord(t, s, other, 1, "1")
}

func testPutExpectsAbsence(t *testing.T, s store.Store) {
	k := key("p", "s")
	commit(t, s, put(k, store.Absent, "first"))
	wantConflict(t, s, store.Tx{Writes: []store.Write{put(k, store.Absent, "second")}}, k)
	wantRecord(t, s, k, 1, "first")
}

func testPutExpectsVersion(t *testing.T, s store.Store) {
	k, absent := key("p", "s"), key("p", "absent")
	commit(t, s, put(k, store.Absent, "1"))
	commit(t, s, put(k, 1, "2"))
	for _, wrong := range []store.Version{store.Absent, 1, 3, store.Any - 1} {
		wantConflict(t, s, store.Tx{Writes: []store.Write{put(k, wrong, "3")}}, k)
	}
	wantConflict(t, s, store.Tx{Writes: []store.Write{put(absent, 1, "1")}}, absent)
	wantRecord(t, s, k, 2, "2")
	wantAbsent(t, s, absent)
}

func testPutAny(t *testing.T, s store.Store) {
	k := key("p", "s")
	commit(t, s, put(k, store.Any, "1"))
	wantRecord(t, s, k, 1, "1")
	commit(t, s, put(k, store.Any, "2"))
	wantRecord(t, s, k, 2, "2")
}

func testDelete(t *testing.T, s store.Store) {
	a, b, absent := key("p", "a"), key("p", "b"), key("p", "absent")
	commit(t, s, put(a, store.Absent, "a"), put(b, store.Absent, "b"))
	commit(t, s, del(a, 1), del(b, store.Any), del(absent, store.Any), del(key("none", "none"), store.Absent))
	wantAbsent(t, s, a)
	wantAbsent(t, s, b)
	wantAbsent(t, s, absent)
	if left := queryAll(t, s, "p", "", 0); len(left) != 0 {
		t.Errorf("Query still finds %q", sorts(left))
	}
}

func testDeleteExpects(t *testing.T, s store.Store) {
	k, absent := key("p", "s"), key("p", "absent")
	commit(t, s, put(k, store.Absent, "1"))
	for _, wrong := range []store.Version{store.Absent, 2} {
		wantConflict(t, s, store.Tx{Writes: []store.Write{del(k, wrong)}}, k)
	}
	wantConflict(t, s, store.Tx{Writes: []store.Write{del(absent, 1)}}, absent)
	wantRecord(t, s, k, 1, "1")
}

func testWriteAgain(t *testing.T, s store.Store) {
	k := key("p", "s")
	commit(t, s, put(k, store.Absent, "1"))
	commit(t, s, del(k, 1))
	commit(t, s, put(k, store.Absent, "again"))
	r := get(t, s, k)
	if len(r) != 1 || r[0].Version == store.Absent || string(r[0].Body) != "again" {
		t.Fatalf("Get after delete and put = %+v", r)
	}
	commit(t, s, put(k, r[0].Version, "more"))
	wantRecord(t, s, k, r[0].Version+1, "more")
}

func testCheck(t *testing.T, s store.Store) {
	k, absent, other := key("p", "s"), key("p", "absent"), key("q", "other")
	commit(t, s, put(k, store.Absent, "1"))
	commit(t, s, check(k, 1), check(absent, store.Absent))
	wantRecord(t, s, k, 1, "1")
	wantAbsent(t, s, absent)
	wantConflict(t, s, store.Tx{Writes: []store.Write{put(other, store.Any, "x"), check(k, 2)}}, k)
	wantConflict(t, s, store.Tx{Writes: []store.Write{check(k, store.Absent), put(other, store.Any, "x")}}, k)
	wantConflict(t, s, store.Tx{Writes: []store.Write{check(absent, 1), put(other, store.Any, "x")}}, absent)
	wantAbsent(t, s, other)
}

func testConflictNamesKeys(t *testing.T, s store.Store) {
	a, b, c, d := key("z", "a"), key("p", "b"), key("p", "c"), key("a", "d")
	commit(t, s, put(a, store.Absent, ""), put(b, store.Absent, ""), put(c, store.Absent, ""))
	wantConflict(t, s, store.Tx{Writes: []store.Write{
		put(a, store.Absent, "x"), del(b, 2), put(c, 1, "x"), check(d, 7),
	}}, a, b, d)
}

func testConflictLeavesNothing(t *testing.T, s store.Store) {
	a, b, c, d := key("p", "a"), key("p", "b"), key("q", "c"), key("p", "d")
	commit(t, s, put(a, store.Absent, "a"), put(b, store.Absent, "b"), put(d, store.Absent, "d"))
	wantConflict(t, s, store.Tx{
		Writes: []store.Write{put(a, 1, "changed"), del(b, 1), put(c, store.Absent, "new"),
			put(d, store.Absent, "stale")},
		Events: []store.Event{event("e", "event")},
	}, d)
	wantRecord(t, s, a, 1, "a")
	wantRecord(t, s, b, 1, "b")
	wantAbsent(t, s, c)
	wantRecord(t, s, d, 1, "d")
	if events := outbox(t, s, 10); len(events) != 0 {
		t.Errorf("outbox holds %q", eventIDs(events))
	}
}

func testEmptyTx(t *testing.T, s store.Store) {
	if err := s.Commit(t.Context(), store.Tx{}); err != nil {
		t.Errorf("Commit of an empty transaction: %v", err)
	}
	published(t, s)
}

func testEmptyBody(t *testing.T, s store.Store) {
	k := key("p", "s")
	commit(t, s, store.Write{Op: store.Put, Key: k, Expect: store.Absent})
	wantRecord(t, s, k, 1, "")
	emit(t, s, store.Event{ID: "e"})
	if e := outbox(t, s, 1); len(e) != 1 || e[0].ID != "e" || len(e[0].Body) != 0 {
		t.Errorf("Outbox = %v, want one event without body", e)
	}
}

func testBodyIsolation(t *testing.T, s store.Store) {
	k := key("p", "s")
	recordBody, eventBody := []byte("record"), []byte("event")
	tx := store.Tx{
		Writes: []store.Write{{Op: store.Put, Key: k, Expect: store.Absent, Body: recordBody}},
		Events: []store.Event{{ID: "e", Body: eventBody}},
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	copy(recordBody, "XXXXXX")
	copy(eventBody, "XXXXX")
	tx.Writes[0].Key.Sort, tx.Events[0].ID = "X", "X"
	wantRecord(t, s, k, 1, "record")
	if e := outbox(t, s, 1); len(e) != 1 || e[0].ID != "e" || string(e[0].Body) != "event" {
		t.Errorf("Outbox = %q, want the event as committed", e)
	}
	before := get(t, s, k)[0]
	commit(t, s, put(k, 1, "RECORD"))
	if !bytes.Equal(before.Body, []byte("record")) {
		t.Errorf("a record read before a put changed to %q", before.Body)
	}
}

func testRecordAndEvent(t *testing.T, s store.Store) {
	k := key("p", "s")
	tx := store.Tx{Writes: []store.Write{put(k, store.Absent, "1")}, Events: []store.Event{event("e", "x")}}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	wantRecord(t, s, k, 1, "1")
	if e := outbox(t, s, 10); len(e) != 1 || e[0].ID != "e" {
		t.Errorf("Outbox = %q, want the event", eventIDs(e))
	}
	if err := s.Commit(t.Context(), tx); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same commit again = %v, want a conflict", err)
	}
}

func testExpiryRoundTrip(t *testing.T, s store.Store) {
	k := key("p", "s")
	far := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	for _, c := range []struct {
		name      string
		put, want time.Time
	}{
		{"whole seconds", far, far},
		{"a nanosecond more", far.Add(1), far.Add(time.Second)},
		{"in another zone", far.In(time.FixedZone("", 3600)), far},
		{"after the year 2262", time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"never, after an expiry", time.Time{}, time.Time{}},
	} {
		w := put(k, store.Any, c.name)
		w.Expires = c.put
		commit(t, s, w)
		r := get(t, s, k)
		if len(r) != 1 || !r[0].Expires.Equal(c.want) || r[0].Expires.IsZero() != c.want.IsZero() {
			t.Errorf("%s: Get = %+v, want expiry at %v", c.name, r, c.want)
		}
	}
}

func testGetOrder(t *testing.T, s store.Store) {
	a, b, c, absent := key("q", "a"), key("p", "b"), key("p", "c"), key("p", "absent")
	commit(t, s, put(a, store.Absent, "a"), put(b, store.Absent, "b"), put(c, store.Absent, "c"))
	for _, keys := range [][]store.Key{{a, b, c}, {c, b, a}, {absent, b, a}, {b, absent}, {c, a, c}} {
		var want []store.Key
		for _, k := range keys {
			if k != absent {
				want = append(want, k)
			}
		}
		got := get(t, s, keys...)
		if len(got) != len(want) {
			t.Fatalf("Get(%q) = %d records, want %q", keys, len(got), want)
		}
		for i, r := range got {
			if r.Key != want[i] || string(r.Body) != want[i].Sort {
				t.Errorf("Get(%q)[%d] = %s, want %q", keys, i, show(r), want[i])
			}
		}
	}
}

func testGetNothing(t *testing.T, s store.Store) {
	if r := get(t, s); len(r) != 0 {
		t.Errorf("Get() = %v", r)
	}
	if r := get(t, s, key("p", "s"), key("q", "s")); len(r) != 0 {
		t.Errorf("Get of missing records = %v", r)
	}
}

package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var limitTests = map[string]func(*testing.T, store.Store){
	"a transaction of maximum items is accepted, one more is not":     testMaxItems,
	"an item of maximum size is accepted, one byte more is not":       testMaxItemBytes,
	"an event of maximum size is accepted, one byte more is not":      testMaxEventBytes,
	"a transaction of maximum size is accepted, one byte more is not": testMaxTxBytes,
	"keys of maximum size are accepted, one byte more is not":         testMaxKeyBytes,
	"an invalid transaction is rejected and writes nothing":           testInvalidTx,
	"an invalid key or query is rejected":                             testInvalidReads,
	"an outbox limit of 0 or less returns nothing":                    testOutboxNoLimit,
	"many keys are read at once":                                      testGetMany,
	"many events are published at once":                               testPublishedMany,
	"a record of maximum size is found among many small ones":         testLargeAmongSmall,
}

// refused fails unless the transaction is rejected with reason and writes nothing.
func refused(t *testing.T, s store.Store, what string, tx store.Tx, reason error) {
	t.Helper()
	witness := key("witness", "w")
	tx.Writes = append([]store.Write{put(witness, store.Any, "x")}, tx.Writes...)
	tx.Events = append([]store.Event{event("witness", "x")}, tx.Events...)
	if err := s.Commit(t.Context(), tx); !errors.Is(err, reason) {
		t.Errorf("%s: Commit = %v, want %v", what, err, reason)
	}
	wantAbsent(t, s, witness)
	if e := outbox(t, s, 1); len(e) != 0 {
		t.Errorf("%s: the outbox holds %q", what, eventIDs(e))
	}
}

func testMaxItems(t *testing.T, s store.Store) {
	tx := store.Tx{}
	for i := range store.MaxItems / 2 {
		tx.Writes = append(tx.Writes, put(key("p", fmt.Sprint(i)), store.Absent, "x"))
		tx.Events = append(tx.Events, event(fmt.Sprint(i), "x"))
	}
	over := store.Tx{Writes: tx.Writes, Events: tx.Events[1:]}
	refused(t, s, "one item too many", over, store.ErrTooLarge)
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatalf("Commit of %d items: %v", store.MaxItems, err)
	}
	if n := len(queryAll(t, s, "p", "", 0)); n != store.MaxItems/2 {
		t.Errorf("%d records, want %d", n, store.MaxItems/2)
	}
	if n := len(drain(t, s)); n != store.MaxItems/2 {
		t.Errorf("%d events, want %d", n, store.MaxItems/2)
	}
}

func testMaxItemBytes(t *testing.T, s store.Store) {
	k := key("p", "large")
	body := patterned(store.MaxItemBytes - len(k.Partition) - len(k.Sort))
	refused(t, s, "an item a byte too large", store.Tx{Writes: []store.Write{
		{Op: store.Put, Key: key("p", "larger"), Expect: store.Any, Body: body},
	}}, store.ErrTooLarge)
	commit(t, s, store.Write{Op: store.Put, Key: k, Expect: store.Absent, Body: body})
	if r := get(t, s, k); len(r) != 1 || !bytes.Equal(r[0].Body, body) {
		t.Errorf("the largest record is read as %d records", len(r))
	}
}

func testMaxEventBytes(t *testing.T, s store.Store) {
	body := patterned(store.MaxItemBytes - len("e"))
	refused(t, s, "an event a byte too large", store.Tx{Events: []store.Event{{ID: "ee", Body: body}}},
		store.ErrTooLarge)
	emit(t, s, store.Event{ID: "e", Body: body})
	if e := outbox(t, s, 1); len(e) != 1 || !bytes.Equal(e[0].Body, body) {
		t.Errorf("the largest event is read as %d events", len(e))
	}
}

func testMaxTxBytes(t *testing.T, s store.Store) {
	var tx store.Tx
	left := store.MaxTxBytes
	for i := 0; left > 0; i++ {
		k := key("p", string(rune('a'+i)))
		size := min(left, store.MaxItemBytes)
		tx.Writes = append(tx.Writes,
			store.Write{Op: store.Put, Key: k, Expect: store.Absent, Body: patterned(size - 2)})
		left -= size
	}
	// The transaction itself has exactly the maximum size; the witness that refused adds makes it too large.
	refused(t, s, "a transaction some bytes too large", tx, store.ErrTooLarge)
	commit(t, s, tx.Writes...)
	n := 0
	for i, r := range queryAll(t, s, "p", "", 0) {
		if !bytes.Equal(r.Body, tx.Writes[i].Body) {
			t.Errorf("%q has another body", r.Key)
		}
		n++
	}
	if n != len(tx.Writes) {
		t.Errorf("%d records, want %d", n, len(tx.Writes))
	}
}

func testMaxKeyBytes(t *testing.T, s store.Store) {
	most := strings.Repeat("é", store.MaxKeyBytes/2)
	for _, k := range []store.Key{key(most, "s"), key("p", most), key(most, most)} {
		commit(t, s, put(k, store.Absent, "x"))
		wantRecord(t, s, k, 1, "x")
		wantSorts(t, "a long key", queryAll(t, s, k.Partition, k.Sort, 1), []string{k.Sort})
	}
	emit(t, s, event(most, "x"))
	if e := drain(t, s); len(e) != 1 || e[0].ID != most {
		t.Errorf("an event with a long ID is read as %d events", len(e))
	}
	for _, k := range []store.Key{key(most+"x", "s"), key("p", most+"x")} {
		refused(t, s, "a long key", store.Tx{Writes: []store.Write{put(k, store.Any, "x")}}, store.ErrTooLarge)
	}
	refused(t, s, "a long event ID", store.Tx{Events: []store.Event{event(most+"x", "x")}}, store.ErrTooLarge)
}

func testInvalidTx(t *testing.T, s store.Store) {
	good := key("p", "s")
	for what, tx := range map[string]store.Tx{
		"an empty partition":       {Writes: []store.Write{put(key("", "s"), store.Any, "x")}},
		"an empty sort key":        {Writes: []store.Write{put(key("p", ""), store.Any, "x")}},
		"a delete of an empty key": {Writes: []store.Write{del(key("", ""), store.Any)}},
		"a check of an empty key":  {Writes: []store.Write{check(key("p", ""), store.Absent)}},
		"a key that is not UTF-8":  {Writes: []store.Write{put(key("p", "a\xff"), store.Any, "x")}},
		"a partition not UTF-8":    {Writes: []store.Write{put(key("\xc0\x80", "s"), store.Any, "x")}},
		"a key written twice":      {Writes: []store.Write{put(good, store.Any, "x"), put(good, store.Any, "y")}},
		"a key put and deleted": {Writes: []store.Write{put(good, store.Any, "x"), put(key("p", "t"), store.Any, ""),
			del(good, store.Any)}},
		"a key checked and put":  {Writes: []store.Write{check(good, store.Absent), put(good, store.Any, "x")}},
		"an unknown operation":   {Writes: []store.Write{{Op: store.Check + 1, Key: good, Expect: store.Any}}},
		"a check of any version": {Writes: []store.Write{check(good, store.Any)}},
		"an event without ID":    {Events: []store.Event{event("", "x")}},
		"an event ID not UTF-8":  {Events: []store.Event{event("\xff", "x")}},
		"a duplicate event":      {Events: []store.Event{event("e", "x"), event("f", "x"), event("e", "x")}},
	} {
		refused(t, s, what, tx, store.ErrInvalid)
	}
	wantAbsent(t, s, good)
}

func testInvalidReads(t *testing.T, s store.Store) {
	long := strings.Repeat("x", store.MaxKeyBytes+1)
	fill(t, s, "p", "s")
	for _, c := range []struct {
		key    store.Key
		reason error
	}{
		{key("", "s"), store.ErrInvalid}, {key("p", ""), store.ErrInvalid}, {key("p", "\xff"), store.ErrInvalid},
		{key(long, "s"), store.ErrTooLarge}, {key("p", long), store.ErrTooLarge},
	} {
		if r, err := s.Get(t.Context(), key("p", "s"), c.key); !errors.Is(err, c.reason) {
			t.Errorf("Get(%.20q) = %v, %v, want %v", c.key, r, err, c.reason)
		}
	}
	for _, c := range []struct {
		partition, prefix string
		page              store.Page
		reason            error
	}{
		{"", "", store.Page{}, store.ErrInvalid},
		{"p", "", store.Page{Limit: -1}, store.ErrInvalid},
		{"p", "\xff", store.Page{}, store.ErrInvalid},
		{"p", "", store.Page{After: "\xff"}, store.ErrInvalid},
		{"p\xff", "", store.Page{}, store.ErrInvalid},
		{long, "", store.Page{}, store.ErrTooLarge},
		{"p", long, store.Page{}, store.ErrTooLarge},
	} {
		if r, _, err := s.Query(t.Context(), c.partition, c.prefix, c.page); !errors.Is(err, c.reason) {
			t.Errorf("Query(%.20q, %.20q, %+v) = %v, %v, want %v", c.partition, c.prefix, c.page, r, err, c.reason)
		}
	}
}

func testOutboxNoLimit(t *testing.T, s store.Store) {
	emit(t, s, event("e", "x"))
	for _, limit := range []int{0, -1} {
		if e := outbox(t, s, limit); len(e) != 0 {
			t.Errorf("Outbox of %d = %q", limit, eventIDs(e))
		}
	}
}

func testGetMany(t *testing.T, s store.Store) {
	const n = 250 // more than DynamoDB takes in one call
	var names []string
	var keys []store.Key
	for i := range n {
		names = append(names, fmt.Sprintf("%03d", i))
		keys = append(keys, key("p", names[i]), key("p", names[i]+"/absent"))
	}
	fill(t, s, "p", names...)
	wantSorts(t, "Get of many", get(t, s, keys...), names)
}

func testPublishedMany(t *testing.T, s store.Store) {
	const n = 250
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%03d", i))
		emit(t, s, event(ids[i], "x"))
	}
	if e := outbox(t, s, n+1); len(e) != n {
		t.Errorf("Outbox of %d = %d events, want %d", n+1, len(e), n)
	}
	published(t, s, append(ids[1:], "unknown", "unknown", ids[n-1])...)
	if e := outbox(t, s, 10); len(e) != 1 || e[0].ID != ids[0] {
		t.Errorf("Outbox = %q, want %q", eventIDs(e), ids[:1])
	}
}

func testLargeAmongSmall(t *testing.T, s store.Store) {
	want := []string{"a", "b", "c", "d", "e"}
	fill(t, s, "p", "a", "b", "d", "e")
	body := patterned(store.MaxItemBytes - 2)
	commit(t, s, store.Write{Op: store.Put, Key: key("p", "c"), Expect: store.Absent, Body: body})
	commit(t, s, put(key("p", "b"), 1, "short"), del(key("p", "d"), 1), put(key("p", "dd"), store.Absent, "x"))
	want[3] = "dd"
	got := queryAll(t, s, "p", "", 2)
	wantSorts(t, "Query", got, want)
	if len(got) == len(want) && !bytes.Equal(got[2].Body, body) {
		t.Error("the large record has another body")
	}
}

// patterned returns n bytes in a pattern that reveals misplaced pieces.
func patterned(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i>>8*17) //nolint:gosec // only the low bits are needed
	}
	return b
}

package bolt

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

func TestRecordsAndEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := store.Record{Key: store.Key{Partition: "p", Sort: "s"}, Version: store.Version(rapid.Uint64().Draw(rt, "version")), Body: rapid.SliceOf(rapid.Byte()).Draw(rt, "body")}
		if rapid.Bool().Draw(rt, "expires") {
			want.Expires = store.RoundExpiry(time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(rt, "second"), 0))
		}
		value := encodeRecord(want.Body, want.Expires)
		setVersion(value, want.Version)
		got, err := decodeRecord(want.Key, value)
		if err != nil || got.Key != want.Key || got.Version != want.Version || !bytes.Equal(got.Body, want.Body) || !got.Expires.Equal(want.Expires) {
			rt.Fatalf("%+v decoded as %+v, %v", want, got, err)
		}
		event := store.Event{ID: rapid.String().Draw(rt, "ID"), Body: want.Body}
		if got, err := decodeEvent(encodeEvent(event)); err != nil || got.ID != event.ID || !bytes.Equal(got.Body, event.Body) {
			rt.Fatalf("%+v decoded as %+v, %v", event, got, err)
		}
	})
}

func TestExpiryKeysSortByTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		second := rapid.Int64Range(-1<<40, 1<<40)
		a, b := time.Unix(second.Draw(rt, "a"), 0), time.Unix(second.Draw(rt, "b"), 0)
		record := recordKey(store.Key{Partition: "p", Sort: "s"})
		ka, kb := expiryKey(orderedSecond(a), record), expiryKey(orderedSecond(b), record)
		if bytes.Compare(ka, kb) != a.Compare(b) {
			rt.Fatalf("%v and %v have keys in a different order", a, b)
		}
		read, of, err := readExpiryKey(ka)
		if err != nil || !timeOf(read).Equal(a) || !bytes.Equal(of, record) {
			rt.Fatalf("%v decoded as %v of %q, %v", a, timeOf(read), of, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	plain := encodeRecord([]byte("body"), time.Time{})
	setVersion(plain, 7)
	f.Add(plain)
	f.Add(encodeRecord([]byte("body"), time.Unix(1e9, 0)))
	f.Add(encodeEvent(store.Event{ID: "id", Body: []byte("body")}))
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, err := decodeRecord(store.Key{}, value); err != nil && !errors.Is(err, errCorrupt) || len(r.Body) > len(value) {
			t.Errorf("record %+v, %v", r, err)
		}
		if e, err := decodeEvent(value); err != nil && !errors.Is(err, errCorrupt) || len(e.ID)+len(e.Body) > len(value) {
			t.Errorf("event %+v, %v", e, err)
		}
		if _, _, err := readExpiryKey(append(bytes.Clone(expirySpace), value...)); err != nil && !errors.Is(err, errCorrupt) {
			t.Error(err)
		}
	})
}

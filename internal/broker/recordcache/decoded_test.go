package recordcache

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// stored is a record with every kind of field that records have.
type stored struct {
	Name   string            `json:"name"`
	At     time.Time         `json:"at"`
	Bytes  []byte            `json:"bytes,omitempty"`
	Nodes  []storedNode      `json:"nodes,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

type storedNode struct {
	Devices []int `json:"devices,omitempty"`
}

// readStored reads a record as it is in a store.
func readStored(t *testing.T, k *Cache, key store.Key, body string) stored {
	t.Helper()
	of := New(k)
	of.Seed(store.Record{Key: key, Version: 1, Body: []byte(body)})
	v, _, err := Get[stored](NewDraft(of, time.Time{}, 0), key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestGetReturnsCopy(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	const body = `{"name":"n","at":"2026-05-20T00:00:00Z","bytes":"AAEC","nodes":[{"devices":[1,2]}],"labels":{"a":"b"}}`
	for range 3 { // decoded once, then twice from the cache
		v := readStored(t, k, key, body)
		if got, want := fmt.Sprint(v), "{n 2026-05-20 00:00:00 +0000 UTC [0 1 2] [{[1 2]}] map[a:b]}"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		v.Bytes[0], v.Nodes[0].Devices[0], v.Labels["a"] = 9, 9, "9"
		v.Nodes[0].Devices = append(v.Nodes[0].Devices[:1], 9)
	}
	if d, ok := k.records.Get(key).(*decodedRecord); !ok || d.value.(*stored).Name != "n" {
		t.Error("it was not cached")
	}
}

// TestAmountsAreNotCopied: they are immutable, and each queue has four.
func TestAmountsAreNotCopied(t *testing.T) {
	k, key, body := NewKept(0).Records(), record.QueueKey("q"), []byte(`{"name":"q","use":{"memoryGiB":4}}`)
	for range 2 {
		q, err := Decode[apitypes.Queue](k, key, body)
		if err != nil {
			t.Fatal(err)
		}
		if left := q.Use.Minus(apitypes.Amounts{apitypes.MemoryGiB: 4}); len(left) != 0 || q.Use[apitypes.MemoryGiB] != 4 {
			t.Errorf("%v are left, and %v before", left, q.Use)
		}
	}
}

// TestLookReturnsSharedValue also checks that results of Get stay independent.
func TestLookReturnsSharedValue(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	const body = `{"name":"n","nodes":[{"devices":[1,2]}]}`
	readStored(t, k, key, body).Nodes[0].Devices[0] = 9
	of := New(k)
	of.Seed(store.Record{Key: key, Version: 1, Body: []byte(body)})
	of.Seed(store.Record{Key: store.Key{Partition: "p", Sort: "none"}})
	for range 2 {
		v, found, err := Look[stored](NewDraft(of, time.Time{}, 0), key)
		if err != nil || !found || v.Name != "n" || v.Nodes[0].Devices[0] != 1 {
			t.Errorf("got %+v, %v, %v", v, found, err)
		}
	}
	none := store.Key{Partition: "p", Sort: "none"}
	if v, found, err := Look[stored](NewDraft(of, time.Time{}, 0), none); found || err != nil {
		t.Errorf("got %+v for a missing record (%v)", v, err)
	}
}

func TestRecreatedRecordIsDecodedAgain(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	for _, name := range []string{"a", "b"} { // both are version 1
		if v := readStored(t, k, key, `{"name":"`+name+`"}`); v.Name != name || v.Nodes != nil || v.Labels != nil {
			t.Errorf("got %+v, want %s", v, name)
		}
	}
}

func TestAllRecordTypesAreCached(t *testing.T) {
	for _, v := range []any{
		record.Job{}, record.Progress{}, record.Task{}, apitypes.Attempt{}, record.Cluster{}, record.Ledger{}, apitypes.Queue{},
		apitypes.Waiting{}, apitypes.Block{}, record.MarketRecord{}, record.JobIndex{}, record.Pool{}, record.Partition{},
		record.Beat{},
	} {
		if _, known := owner(reflect.TypeOf(v), nil); !known {
			t.Errorf("%T is decoded at each Get", v)
		}
		if field := unwritten(reflect.TypeOf(v)); field != "" {
			t.Errorf("%T is cached as it was written, with %s, which is not stored", v, field)
		}
	}
	if _, known := owner(reflect.TypeFor[struct{ p *int }](), nil); known {
		t.Error("what a pointer refers to would be shared")
	}
}

// unwritten names a field of a record, at any depth, that its JSON omits.
func unwritten(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // others have no fields
	case reflect.Slice, reflect.Map:
		return unwritten(t.Elem())
	case reflect.Struct:
		for i := 0; i < t.NumField() && t != reflect.TypeFor[time.Time](); i++ {
			f := t.Field(i)
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				return t.Name() + "." + f.Name
			}
			if of := unwritten(f.Type); of != "" {
				return of
			}
		}
	}
	return ""
}

func TestWrittenRecordReadsAsStored(t *testing.T) {
	k, key := NewKept(0), store.Key{Partition: "p", Sort: "s"}
	at := time.Now() // has a monotonic clock reading, which is not stored
	v := stored{Name: "n", At: at, Nodes: []storedNode{{Devices: []int{1}}}}
	body, err := k.Encode(record.Write{Key: key, Value: v}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.Nodes[0].Devices[0] = 9 // the caller may change its value
	if _, ok := k.records.Get(key).(*decodedRecord); !ok {
		t.Fatal("the next reader decodes it")
	}
	got := readStored(t, k, key, string(body))
	if !got.At.Equal(at) || strings.Contains(got.At.String(), " m=") || got.Nodes[0].Devices[0] != 1 {
		t.Errorf("got %+v, at %v", got, at)
	}
	if got := readStored(t, k, key, `{"name":"another's"}`); got.Name != "another's" {
		t.Errorf("got %s, which is not what the store has", got.Name)
	}
}

// TestSharedCacheKeepsOnlyDecodedValues: a broker never gets a value as another broker of the process wrote it.
func TestSharedCacheKeepsOnlyDecodedValues(t *testing.T) {
	one, other, shared := NewKept(0), NewKept(0), NewDecoded()
	one.Share(shared)
	other.Share(shared)
	type forgetful struct {
		Name   string
		Secret string `json:"-"`
	}
	key := store.Key{Partition: "p", Sort: "s"}
	body, err := one.Encode(record.Write{Key: key, Value: forgetful{"n", "not stored"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Cache{one, other} {
		if v, err := Decode[forgetful](k.Records(), key, body); err != nil || v != (forgetful{Name: "n"}) {
			t.Errorf("got %+v (%v)", v, err)
		}
	}
	before := shared.Get(key)
	if _, err := Decode[forgetful](other.Records(), key, body); err != nil || before == nil || shared.Get(key) != before {
		t.Errorf("each broker decodes it (%v)", err)
	}
}

// TestSharedCacheReadsBlobOnce: a separate process keeps it in its blob cache instead.
func TestSharedCacheReadsBlobOnce(t *testing.T) {
	key, body := store.Key{Partition: "p", Sort: "plan#000001#t#0000"}, []byte("compressed")
	for name, c := range map[string]struct {
		known *Decoded
		reads int
	}{"shared": {NewDecoded(), 1}, "one's own": {NewKept(0).Records(), 3}} {
		reads := 0
		read := func(v *stored) error {
			reads++
			v.Name = "n"
			return nil
		}
		for range 3 {
			if v, err := Blob(c.known, key, body, read); err != nil || v.Name != "n" {
				t.Fatalf("%s: got %+v (%v)", name, v, err)
			}
		}
		if reads != c.reads {
			t.Errorf("%s: read %d times, not %d", name, reads, c.reads)
		}
		broken := errors.New("broken")
		fail := func(*stored) error { return broken }
		if _, err := Blob(c.known, key, []byte("another's"), fail); !errors.Is(err, broken) {
			t.Errorf("%s: another body that cannot be read: %v", name, err)
		}
	}
}

func TestCacheKeepsRecentlyUsed(t *testing.T) {
	r := newRecent[int](100)
	for i := range 1000 {
		r.Put(i, i, 10)
		if r.Get(0) != 0 {
			t.Fatalf("a value that was used each time was dropped at %d", i)
		}
		if n := len(r.young) + len(r.old); n > 12 {
			t.Fatalf("%d values of 10 bytes are kept in 100 bytes", n)
		}
	}
	if r.Get(999) != 999 || r.Get(500) != nil {
		t.Errorf("kept %v and %v", r.Get(999), r.Get(500))
	}
	r.Put(7, 7, 1000)
	if r.Get(7) != 7 {
		t.Error("a value larger than the cache was not kept, although it was used last")
	}
}

func TestCacheKeepsTwoLargeValues(t *testing.T) {
	r := newRecent[string](100)
	r.Put("spec", 1, 500)
	r.Put("plan", 2, 700)
	for range 5 {
		if r.Get("spec") != 1 || r.Get("plan") != 2 {
			t.Fatal("a spec and a plan that are read alternately are loaded each time")
		}
	}
}

package dynamo_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestMeterCountsByDynamosRules compares the meter's units with the examples in the price list. It logs the units
// that DynamoDB Local reports differently.
func TestMeterCountsByDynamosRules(t *testing.T) {
	ts := onLocal(t)
	m := &dynamo.Meter{}
	s := open(t, ts.cfg, ts.create(t), dynamo.Options{Meter: m})
	body := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	noise := func(n int) []byte { // text that cannot be compressed
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{}).Read(b)
		return b
	}
	w := func(name string, n int) store.Write {
		return store.Write{Key: key("p", name), Expect: store.Absent, Body: noise(n)}
	}
	commit := func(tx store.Tx) func() error { return func() error { return s.Commit(t.Context(), tx) } }
	for _, c := range []struct {
		what        string
		do          func() error
		read, write float64
	}{
		{"a small put", commit(store.Tx{Writes: []store.Write{w("a", 100)}}), 0, 1},
		{"a put of 3 KB and a bit", commit(store.Tx{Writes: []store.Write{w("b", 3<<10)}}), 0, 4},
		{"two small puts in a transaction", commit(store.Tx{Writes: []store.Write{w("c", 100), w("d", 100)}}), 0, 4},
		{"a put and two events", commit(store.Tx{Writes: []store.Write{w("e", 1500)}, Events: []store.Event{{ID: "1", Body: body(100)}, {ID: "2", Body: body(100)}}}), 0, 6},
		{"a put that compresses", commit(store.Tx{Writes: []store.Write{{Key: key("q", "a"), Expect: store.Absent, Body: body(5000)}}}), 0, 1},
		{"events that compress", commit(store.Tx{Events: []store.Event{{ID: "3", Body: body(5000)}}}), 0, 1},
		{"a put of any version", commit(store.Tx{Writes: []store.Write{{Key: key("p", "a"), Expect: store.Any, Body: body(10)}}}), 0, 1},
		{"a single check", commit(store.Tx{Writes: []store.Write{{Op: store.Check, Key: key("p", "a"), Expect: 2}}}), 1, 0},
		{"a check in a transaction", commit(store.Tx{Writes: []store.Write{{Op: store.Check, Key: key("p", "a"), Expect: 2}, w("f", 1)}}), 0, 4},
		{"a conflict", func() error {
			_ = s.Commit(t.Context(), store.Tx{Writes: []store.Write{w("a", 1), w("g", 1)}})
			return nil
		}, 0, 4},
		{"a get", func() error { _, err := s.Get(t.Context(), key("p", "a")); return err }, 1, 0},
		{"a get of a missing record", func() error { _, err := s.Get(t.Context(), key("p", "z")); return err }, 1, 0},
		{"a get of three, one missing", func() error {
			_, err := s.Get(t.Context(), key("p", "a"), key("p", "b"), key("p", "z"))
			return err
		}, 3, 0},
		{"a query of 5 KB", func() error { _, _, err := s.Query(t.Context(), "p", "", store.Page{}); return err }, 2, 0},
		{"a look at the outbox", func() error { _, err := s.Outbox(t.Context(), 10); return err }, dynamo.Shards, 0},
		{"two transactions published", func() error { return s.Published(t.Context(), "1", "2", "3") }, 0, 2},
	} {
		before := m.Usage()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		after := m.Usage()
		read, write := after.Total.Read-before.Total.Read, after.Total.Write-before.Total.Write
		if read != c.read || write != c.write {
			t.Errorf("%s: %v read and %v write units, want %v and %v", c.what, read, write, c.read, c.write)
		}
		if reported := after.Reported - before.Reported; reported != read+write {
			t.Logf("%s: DynamoDB Local reports %v units, not %v", c.what, reported, read+write)
		}
	}
}

func TestNilMeterCountsNothing(t *testing.T) {
	var m *dynamo.Meter
	if u := m.Usage(); u.Total.Requests != 0 {
		t.Errorf("%+v", u)
	}
}

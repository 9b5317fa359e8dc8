package cost

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestTableCountsLikeDriver sends the same transactions and reads to the counting table and to the DynamoDB driver.
// Both must count the same; the driver's meter counts the real requests.
func TestTableCountsLikeDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an emulator")
	}
	cfg := emulator.Config(emulator.DynamoDBLocal(t))
	ctx := t.Context()
	name := fmt.Sprint("cost", time.Now().UnixNano())
	if err := dynamo.CreateTable(ctx, cfg, name); err != nil {
		t.Fatal(err)
	}
	driver := &dynamo.Meter{}
	real, err := dynamo.New(cfg, name, dynamo.Options{Meter: driver})
	if err != nil {
		t.Fatal(err)
	}
	m := newMeter()
	model := &table{Store: mem.New(), meter: m}
	var items []int
	model.onCommit = func(size int) { items = append(items, size) }
	for _, s := range []store.Store{real, model} {
		exercise(ctx, t, s)
	}
	pending, err := real.Outbox(ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(pending))
	for i, p := range pending {
		ids[i] = p.ID
	}
	before := driver.Usage().Total
	if err := real.Published(ctx, ids...); err != nil {
		t.Fatal(err)
	}
	model.published(items)
	removed := driver.Usage().Total.Write - before.Write
	writes := driver.Usage().Total.Write
	// without queries of the outbox, which the table does not count; the test makes two other queries
	reads := before.Read - driver.Usage().ByOperation["Query"].Read + 2
	if got := m.units[TableWrites][byEvents]; got != writes {
		t.Errorf("the model counts %v write units, the driver %v (%v of them removals)", got, writes, removed)
	}
	if got := m.units[TableReads][byEvents]; got != reads {
		t.Errorf("the model counts %v read units, the driver %v", got, reads)
	}
}

func exercise(ctx context.Context, t *testing.T, s store.Store) {
	t.Helper()
	key := func(i int) store.Key { return store.Key{Partition: "job#x", Sort: fmt.Sprintf("task#%06d", i)} }
	commit := func(tx store.Tx) {
		t.Helper()
		if err := s.Commit(ctx, tx); err != nil {
			t.Fatal(err)
		}
	}
	event := func(i, size int) store.Event {
		return store.Event{ID: fmt.Sprintf("event-%06d", i), Body: []byte(`{"data":"` + strings.Repeat("abcdefghij", size/10) + `"}`)}
	}
	for i, size := range []int{10, 900, 980, 1100, 5000, 100_000} {
		w := store.Write{Key: key(i), Expect: store.Absent, Body: make([]byte, size)}
		if i%2 == 1 {
			w.Expires = time.Unix(2_000_000_000, 0)
		}
		commit(store.Tx{Writes: []store.Write{w}}) // a single write: half the price
		w.Expect = 1
		tx := store.Tx{Writes: []store.Write{w, {Key: key(100 + i), Expect: store.Any, Body: []byte("{}")}}}
		for n := range i {
			tx.Events = append(tx.Events, event(100*i+n, 400))
		}
		commit(tx)
	}
	commit(store.Tx{Writes: []store.Write{{Op: store.Check, Key: key(0), Expect: 2}, {Op: store.Delete, Key: key(1), Expect: 2}}})
	commit(store.Tx{Events: []store.Event{event(1, 300)}})
	for _, keys := range [][]store.Key{{key(0)}, {key(0), key(4), key(999)}, {key(5)}, {key(998)}} {
		if _, err := s.Get(ctx, keys...); err != nil {
			t.Fatal(err)
		}
	}
	for _, partition := range []string{"job#none", "job#nobody"} {
		if _, _, err := s.Query(ctx, partition, "", store.Page{}); err != nil {
			t.Fatal(err)
		}
	}
}

package dynamo_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestSameHistorySameResults runs random histories on a table and in memory. Every call must return the same result,
// including versions and the keys of conflicts.
func TestSameHistorySameResults(t *testing.T) {
	fewerChecks(t, "4")
	ts := onLocal(t)
	table := ts.create(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		tw := &twin{mem: mem.New(), prefix: fmt.Sprintf("run%d#", run)}
		var err error
		if tw.dynamo, err = dynamo.New(ts.cfg, table, dynamo.Options{}); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){"": tw.compare, "commit": tw.commit, "commit again": tw.commit, "publish": tw.publish})
		tw.drain(rt)
	})
}

type twin struct {
	mem    *mem.Store
	dynamo *dynamo.Store
	prefix string
}

var (
	twinPartitions = []string{"job", "outbox#0", "=outbox#0", "="} // some look like the driver's own partitions
	twinSorts      = []string{"task#1", "task#10", "task#2", "cluster#1"}
)

func (tw *twin) keys() []store.Key {
	var keys []store.Key
	for _, p := range twinPartitions {
		for _, s := range twinSorts {
			keys = append(keys, key(p, tw.prefix+s))
		}
	}
	return keys
}

func (tw *twin) commit(rt *rapid.T) {
	var tx store.Tx
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(tw.keys()), 0, 5, rapid.ID[store.Key]).Draw(rt, "keys") {
		w := store.Write{
			Key: k, Op: rapid.SampledFrom([]store.Op{store.Put, store.Put, store.Delete, store.Check}).Draw(rt, "op"),
			Expect: rapid.SampledFrom([]store.Version{tw.version(rt, k), tw.version(rt, k), store.Absent, 1, 2}).Draw(rt, "expect"),
		}
		if w.Op != store.Check && rapid.IntRange(0, 3).Draw(rt, "any") == 0 {
			w.Expect = store.Any
		}
		if w.Op == store.Put {
			w.Body = []byte(strings.Repeat("x", rapid.IntRange(0, 3000).Draw(rt, "bytes")))
			if rapid.Bool().Draw(rt, "expires") {
				w.Expires = time.Date(2200, 1, 1, 0, 0, rapid.IntRange(0, 9).Draw(rt, "s"), rapid.IntRange(0, 1).Draw(rt, "ns"), time.UTC)
			}
		}
		tx.Writes = append(tx.Writes, w)
	}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"e", "f", "g"}), 0, 3, rapid.ID[string]).Draw(rt, "events") {
		tx.Events = append(tx.Events, store.Event{ID: tw.prefix + id, Body: rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "event")})
	}
	want, got := tw.mem.Commit(rt.Context(), tx), tw.dynamo.Commit(rt.Context(), tx)
	if !sameOutcome(want, got) {
		rt.Fatalf("Commit of %+v = %v, want %v", tx, got, want)
	}
}

func sameOutcome(a, b error) bool {
	var left, right *store.ConflictError
	if errors.As(a, &left) != errors.As(b, &right) {
		return false
	}
	if left != nil {
		return slices.Equal(left.Keys, right.Keys)
	}
	return (a == nil) == (b == nil)
}

func (tw *twin) version(rt *rapid.T, k store.Key) store.Version {
	r, err := tw.mem.Get(rt.Context(), k)
	if err != nil {
		rt.Fatal(err)
	}
	if len(r) == 0 {
		return store.Absent
	}
	return r[0].Version
}

func (tw *twin) publish(rt *rapid.T) {
	var ids []string
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"e", "f", "g"}), 1, 2, rapid.ID[string]).Draw(rt, "published") {
		ids = append(ids, tw.prefix+id)
	}
	if err := errors.Join(tw.mem.Published(rt.Context(), ids...), tw.dynamo.Published(rt.Context(), ids...)); err != nil {
		rt.Fatal(err)
	}
}

func (tw *twin) compare(rt *rapid.T) {
	want, err := tw.mem.Get(rt.Context(), tw.keys()...)
	if err != nil {
		rt.Fatal(err)
	}
	got, err := tw.dynamo.Get(rt.Context(), tw.keys()...)
	if err != nil || !slices.EqualFunc(got, want, sameRecord) {
		rt.Fatalf("Get = %+v, %v, want %+v", got, err, want)
	}
	p := rapid.SampledFrom(twinPartitions).Draw(rt, "partition")
	page := store.Page{Limit: rapid.IntRange(0, 3).Draw(rt, "limit"), After: tw.prefix + rapid.SampledFrom(append([]string{""}, twinSorts...)).Draw(rt, "after")}
	prefix := tw.prefix + rapid.SampledFrom([]string{"", "task#", "task#1"}).Draw(rt, "prefix")
	wantPage, wantMore, err := tw.mem.Query(rt.Context(), p, prefix, page)
	if err != nil {
		rt.Fatal(err)
	}
	gotPage, more, err := tw.dynamo.Query(rt.Context(), p, prefix, page)
	if err != nil || more != wantMore || !slices.EqualFunc(gotPage, wantPage, sameRecord) {
		rt.Fatalf("Query(%q, %q, %+v) = %+v, %v, %v, want %+v, %v", p, prefix, page, gotPage, more, err, wantPage, wantMore)
	}
	wantEvents, err := tw.mem.Outbox(rt.Context(), 10)
	if err != nil {
		rt.Fatal(err)
	}
	events, err := tw.dynamo.Outbox(rt.Context(), 10)
	sameEvent := func(a, b store.Event) bool { return a.ID == b.ID && bytes.Equal(a.Body, b.Body) }
	byID := func(a, b store.Event) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(events, byID)
	slices.SortFunc(wantEvents, byID)
	if err != nil || !slices.EqualFunc(events, wantEvents, sameEvent) {
		rt.Fatalf("Outbox = %v, %v, want %v", events, err, wantEvents)
	}
}

func (tw *twin) drain(rt *rapid.T) {
	for _, id := range []string{"e", "f", "g"} {
		if err := tw.dynamo.Published(rt.Context(), tw.prefix+id); err != nil {
			rt.Fatal(err)
		}
	}
}

func sameRecord(a, b store.Record) bool {
	return a.Key == b.Key && a.Version == b.Version && bytes.Equal(a.Body, b.Body) && a.Expires.Equal(b.Expires)
}

package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// testModel compares the driver with maps under random operations. One store
// serves all runs, each in its own partitions, so that a driver that is slow to
// set up can be tested too.
func (s *suite) testModel(t *testing.T) {
	st := s.store(t)
	defer func() {
		if s.reopen == nil {
			return
		}
		if err := st.Close(); err != nil { // reopening may have replaced the store
			t.Errorf("Close: %v", err)
		}
	}()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		drain(t, st)
		m := &model{suite: s, prefix: fmt.Sprintf("run%d/", run), records: make(map[store.Key]store.Record),
			known: make(map[store.Key]bool)}
		actions := map[string]func(*rapid.T){
			"":        func(rt *rapid.T) { m.compare(rt, st) },
			"commit":  func(rt *rapid.T) { m.commit(rt, st) },
			"commit2": func(rt *rapid.T) { m.commit(rt, st) }, // twice as often as the others
			"get":     func(rt *rapid.T) { m.get(rt, st) },
			"query":   func(rt *rapid.T) { m.query(rt, st) },
			"publish": func(rt *rapid.T) { m.publish(rt, st) },
			"sweep":   func(rt *rapid.T) { m.sweep(rt, st) },
		}
		if s.reopen != nil {
			actions["reopen"] = func(*rapid.T) { st = s.reopen(t, st) }
		}
		rt.Repeat(actions)
	})
}

// model is the expected content of a store.
type model struct {
	suite   *suite
	prefix  string // partition prefix of this run
	records map[store.Key]store.Record
	known   map[store.Key]bool // keys that were written before: their version may continue
	events  []store.Event
}

var (
	someSorts = []string{"\x00", "a", "a\x00", "a/", "a/b", "aa", "b", "b\U0010ffff", "ÿ"}
	someIDs   = []string{"e", "e\x00", "f", "g", "h/1", "h/2"}
)

func (m *model) keys() *rapid.Generator[store.Key] {
	return rapid.Custom(func(rt *rapid.T) store.Key {
		return key(m.prefix+rapid.SampledFrom([]string{"p", "p/a", "q"}).Draw(rt, "partition"),
			rapid.SampledFrom(someSorts).Draw(rt, "sort"))
	})
}

func (m *model) version(k store.Key) store.Version { return m.records[k].Version }

func (m *model) drawTx(rt *rapid.T) store.Tx {
	var tx store.Tx
	for _, k := range rapid.SliceOfNDistinct(m.keys(), 0, 6, rapid.ID[store.Key]).Draw(rt, "keys") {
		w := store.Write{Op: rapid.SampledFrom([]store.Op{store.Put, store.Put, store.Delete, store.Check}).Draw(rt,
			"op"), Key: k}
		expect := []store.Version{m.version(k), m.version(k), m.version(k), store.Absent, m.version(k) + 1, store.Any}
		if w.Op == store.Check {
			expect = expect[:5]
		}
		w.Expect = rapid.SampledFrom(expect).Draw(rt, "expect")
		if w.Op == store.Put {
			w.Body = []byte(rapid.StringN(0, 40, 200).Draw(rt, "body"))
			if !m.suite.selfExpiring && rapid.Bool().Draw(rt, "expires") {
				w.Expires = epoch.Add(
					time.Duration(rapid.IntRange(0, 4000).Draw(rt, "milliseconds")) * time.Millisecond)
			}
		}
		tx.Writes = append(tx.Writes, w)
	}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(someIDs), 0, 3, rapid.ID[string]).Draw(rt, "events") {
		tx.Events = append(tx.Events, event(id, rapid.StringN(0, 20, 80).Draw(rt, "event")))
	}
	return tx
}

func (m *model) commit(rt *rapid.T, st store.Store) {
	tx := m.drawTx(rt)
	var conflicts []store.Key
	for _, w := range tx.Writes {
		if w.Expect != store.Any && w.Expect != m.version(w.Key) {
			conflicts = append(conflicts, w.Key)
		}
	}
	err := st.Commit(rt.Context(), tx)
	if conflicts != nil {
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) || !slices.Equal(conflict.Keys, conflicts) {
			rt.Fatalf("Commit = %v, want a conflict on %q", err, conflicts)
		}
		return
	}
	if err != nil {
		rt.Fatalf("Commit: %v", err)
	}
	for _, w := range tx.Writes {
		m.apply(rt, st, w)
	}
	for _, e := range tx.Events {
		i := slices.IndexFunc(m.events, func(p store.Event) bool { return p.ID == e.ID })
		if i >= 0 {
			m.events[i] = e
		} else {
			m.events = append(m.events, e)
		}
	}
}

func (m *model) apply(rt *rapid.T, st store.Store, w store.Write) {
	switch w.Op {
	case store.Put:
		r := store.Record{Key: w.Key, Version: m.version(w.Key) + 1, Body: w.Body,
			Expires: store.RoundExpiry(w.Expires)}
		if r.Version == 1 && m.known[w.Key] { // a driver may continue a deleted record's version
			r.Version = m.learnVersion(rt, st, w.Key)
		}
		m.records[w.Key] = r
		m.known[w.Key] = true
	case store.Delete:
		delete(m.records, w.Key)
	case store.Check:
	}
}

func (m *model) learnVersion(rt *rapid.T, st store.Store, k store.Key) store.Version {
	r, err := st.Get(rt.Context(), k)
	if err != nil || len(r) != 1 || r[0].Version == store.Absent {
		rt.Fatalf("Get of %q, just written = %v, %v", k, r, err)
	}
	return r[0].Version
}

func (m *model) get(rt *rapid.T, st store.Store) {
	keys := rapid.SliceOfN(m.keys(), 0, 5).Draw(rt, "keys")
	var want []store.Record
	for _, k := range keys {
		if r, ok := m.records[k]; ok {
			want = append(want, r)
		}
	}
	got, err := st.Get(rt.Context(), keys...)
	if err != nil || !slices.EqualFunc(got, want, sameRecord) {
		rt.Fatalf("Get(%q) = %+v, %v, want %+v", keys, got, err, want)
	}
}

func (m *model) query(rt *rapid.T, st store.Store) {
	partition := m.keys().Draw(rt, "in").Partition
	prefix := rapid.SampledFrom(append([]string{"", "a/b/", "z"}, someSorts...)).Draw(rt, "prefix")
	page := store.Page{
		Limit: rapid.IntRange(0, 4).Draw(rt, "limit"),
		After: rapid.SampledFrom(append([]string{"", "a0", "z"}, someSorts...)).Draw(rt, "after"),
	}
	want := m.matching(partition, prefix, page.After)
	more := page.Limit > 0 && len(want) > page.Limit
	if more {
		want = want[:page.Limit]
	}
	got, gotMore, err := st.Query(rt.Context(), partition, prefix, page)
	if err != nil || gotMore != more || !slices.EqualFunc(got, want, sameRecord) {
		rt.Fatalf("Query(%q, %q, %+v) = %+v, %v, %v, want %+v, %v", partition, prefix, page, got, gotMore, err,
			want, more)
	}
}

func (m *model) matching(partition, prefix, after string) []store.Record {
	var matching []store.Record
	for k, r := range m.records {
		if k.Partition == partition && strings.HasPrefix(k.Sort, prefix) && k.Sort > after {
			matching = append(matching, r)
		}
	}
	slices.SortFunc(matching, func(a, b store.Record) int { return strings.Compare(a.Key.Sort, b.Key.Sort) })
	return matching
}

func (m *model) publish(rt *rapid.T, st store.Store) {
	ids := rapid.SliceOfN(rapid.SampledFrom(append([]string{"unknown"}, someIDs...)), 0, 4).Draw(rt, "published")
	if err := st.Published(rt.Context(), ids...); err != nil {
		rt.Fatalf("Published: %v", err)
	}
	m.events = slices.DeleteFunc(m.events, func(e store.Event) bool { return slices.Contains(ids, e.ID) })
}

func (m *model) sweep(rt *rapid.T, st store.Store) {
	now := epoch.Add(time.Duration(rapid.IntRange(-1, 5).Draw(rt, "now")) * time.Second)
	if err := st.Sweep(rt.Context(), now); err != nil {
		rt.Fatalf("Sweep: %v", err)
	}
	maps.DeleteFunc(m.records, func(_ store.Key, r store.Record) bool {
		return !r.Expires.IsZero() && r.Expires.Before(now)
	})
}

// compare checks all that the store holds for this run.
func (m *model) compare(rt *rapid.T, st store.Store) {
	for _, p := range []string{"p", "p/a", "q"} {
		want := m.matching(m.prefix+p, "", "")
		got, more, err := st.Query(rt.Context(), m.prefix+p, "", store.Page{})
		if err != nil || more || !slices.EqualFunc(got, want, sameRecord) {
			rt.Fatalf("partition %s holds %+v (%v, %v), want %+v", p, got, more, err, want)
		}
	}
	got, err := st.Outbox(rt.Context(), len(someIDs)+1)
	if err != nil {
		rt.Fatalf("Outbox: %v", err)
	}
	if !slices.EqualFunc(inOrder(got), inOrder(m.events), func(a, b store.Event) bool {
		return a.ID == b.ID && string(a.Body) == string(b.Body)
	}) {
		rt.Fatalf("Outbox = %q, want %q", got, m.events)
	}
}

// inOrder returns events sorted, so that they can be compared. The position of a
// replaced event is the driver's choice; testOutboxOrder checks the order.
func inOrder(events []store.Event) []store.Event {
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, func(a, b store.Event) int { return strings.Compare(a.ID, b.ID) })
	return sorted
}

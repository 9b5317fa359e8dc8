// Package storetest is the conformance suite of package store: it tests every
// sentence of the contract, and compares a driver with a model under random
// operations. Every driver must pass it:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mem.New() })
//	}
//
// It does not test the speed of a driver, or its state after a crash; drivers have their own tests for that.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Open returns an empty store for one test, which the suite closes at the end. The suite
// may close it earlier.
type Open func(t *testing.T) store.Store

// Option describes how a driver differs from the common contract.
type Option func(*suite)

// Reopen declares that the driver is durable: reopen closes s and opens its data again.
func Reopen(reopen func(t *testing.T, s store.Store) store.Store) Option {
	return func(s *suite) { s.reopen = reopen }
}

// SelfExpiring declares that the driver removes expired records at a time that it
// chooses: Sweep is called, but need not do anything.
func SelfExpiring() Option {
	return func(s *suite) { s.selfExpiring = true }
}

// UnorderedOutbox declares that the driver does not know the order of transactions.
func UnorderedOutbox() Option {
	return func(s *suite) { s.unordered = true }
}

// Except skips tests. The keys of reasons are test names without the group, the values are the reasons to skip. It is
// for an emulator that differs from the real service, not for a driver that violates the contract.
func Except(reasons map[string]string) Option {
	return func(s *suite) { s.except = reasons }
}

type suite struct {
	open         Open
	except       map[string]string
	reopen       func(t *testing.T, s store.Store) store.Store
	selfExpiring bool
	unordered    bool
}

// Run runs the suite, each test on its own store.
func Run(t *testing.T, open Open, options ...Option) {
	s := &suite{open: open}
	for _, o := range options {
		o(s)
	}
	for _, group := range []struct {
		name  string
		tests map[string]func(*testing.T, store.Store)
	}{
		{"Commit", commitTests}, {"Isolation", isolationTests}, {"Query", queryTests},
		{"Limits", limitTests}, {"Outbox", outboxTests}, {"Life", lifeTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(group.tests)) {
				t.Run(name, func(t *testing.T) {
					if reason, out := s.except[name]; out {
						t.Skip(reason)
					}
					group.tests[name](t, s.store(t))
				})
			}
		})
	}
	t.Run("Outbox order", s.testOutboxOrder)
	t.Run("Expiry", s.testExpiry)
	t.Run("Model", s.testModel)
	if s.reopen != nil {
		t.Run("Reopen", s.testReopen)
	}
}

func (s *suite) store(t *testing.T) store.Store {
	t.Helper()
	st := s.open(t)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return st
}

// epoch is the time of the suite: in the past, in whole seconds.
var epoch = time.Date(2017, 4, 1, 12, 0, 0, 0, time.UTC)

func key(partition, sort string) store.Key { return store.Key{Partition: partition, Sort: sort} }

func put(k store.Key, expect store.Version, body string) store.Write {
	return store.Write{Op: store.Put, Key: k, Expect: expect, Body: []byte(body)}
}

func del(k store.Key, expect store.Version) store.Write {
	return store.Write{Op: store.Delete, Key: k, Expect: expect}
}

func check(k store.Key, expect store.Version) store.Write {
	return store.Write{Op: store.Check, Key: k, Expect: expect}
}

func event(id, body string) store.Event { return store.Event{ID: id, Body: []byte(body)} }

func commit(t testing.TB, s store.Store, writes ...store.Write) {
	t.Helper()
	if err := s.Commit(t.Context(), store.Tx{Writes: writes}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func emit(t testing.TB, s store.Store, events ...store.Event) {
	t.Helper()
	if err := s.Commit(t.Context(), store.Tx{Events: events}); err != nil {
		t.Fatalf("Commit of events: %v", err)
	}
}

func get(t testing.TB, s store.Store, keys ...store.Key) []store.Record {
	t.Helper()
	records, err := s.Get(t.Context(), keys...)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return records
}

// wantRecord fails unless the record exists with version and body.
func wantRecord(t testing.TB, s store.Store, k store.Key, version store.Version, body string) {
	t.Helper()
	r := get(t, s, k)
	if len(r) != 1 {
		t.Fatalf("Get(%q) = %d records, want one", k, len(r))
	}
	if r[0].Key != k || r[0].Version != version || string(r[0].Body) != body {
		t.Fatalf("Get(%q) = %s, want version %d of %q", k, show(r[0]), version, body)
	}
}

func wantAbsent(t testing.TB, s store.Store, k store.Key) {
	t.Helper()
	if r := get(t, s, k); len(r) != 0 {
		t.Fatalf("Get(%q) = %s, want none", k, show(r[0]))
	}
}

// wantConflict fails unless the transaction conflicts on exactly these keys.
func wantConflict(t testing.TB, s store.Store, tx store.Tx, keys ...store.Key) {
	t.Helper()
	err := s.Commit(t.Context(), tx)
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Commit = %v, want a conflict on %q", err, keys)
	}
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("Commit = %v, want a ConflictError", err)
	}
	if !slices.Equal(conflict.Keys, keys) {
		t.Fatalf("conflict on %q, want on %q", conflict.Keys, keys)
	}
}

func outbox(t testing.TB, s store.Store, limit int) []store.Event {
	t.Helper()
	events, err := s.Outbox(t.Context(), limit)
	if err != nil {
		t.Fatalf("Outbox: %v", err)
	}
	return events
}

func published(t testing.TB, s store.Store, ids ...string) {
	t.Helper()
	if err := s.Published(t.Context(), ids...); err != nil {
		t.Fatalf("Published: %v", err)
	}
}

// drain publishes the whole outbox and returns its events.
func drain(t testing.TB, s store.Store) []store.Event {
	t.Helper()
	var all []store.Event
	for {
		events := outbox(t, s, 50)
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
		published(t, s, eventIDs(events)...)
	}
}

func eventIDs(events []store.Event) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return ids
}

// queryAll pages through a query with a limit and checks the guarantees of every page.
func queryAll(t testing.TB, s store.Store, partition, prefix string, limit int) []store.Record {
	t.Helper()
	var all []store.Record
	page := store.Page{Limit: limit}
	for {
		records, more, err := s.Query(t.Context(), partition, prefix, page)
		if err != nil {
			t.Fatalf("Query(%q, %q, %+v): %v", partition, prefix, page, err)
		}
		if limit > 0 && len(records) > limit {
			t.Fatalf("Query(%q, %q, %+v) = %d records", partition, prefix, page, len(records))
		}
		all = append(all, records...)
		if !more {
			return all
		}
		if len(records) == 0 {
			t.Fatalf("Query(%q, %q, %+v): an empty page, and more after it", partition, prefix, page)
		}
		page.After = records[len(records)-1].Key.Sort
	}
}

func sorts(records []store.Record) []string {
	s := make([]string, len(records))
	for i, r := range records {
		s[i] = r.Key.Sort
	}
	return s
}

// throttled accepts the errors after which retry continues; conflicting also accepts conflicts.
func throttled(err error) bool { return errors.Is(err, store.ErrThrottled) }

func conflicting(err error) bool { return throttled(err) || errors.Is(err, store.ErrConflict) }

// retry calls attempt until it returns nil or an error that on does not accept.
func retry(ctx context.Context, on func(error) bool, attempt func() error) error {
	for {
		err := attempt()
		if !on(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		runtime.Gosched()
	}
}

func show(r store.Record) string {
	return fmt.Sprintf("{%q version %d, %d bytes %.40q, expires %v}", r.Key, r.Version, len(r.Body), r.Body, r.Expires)
}

func sameRecord(a, b store.Record) bool {
	return a.Key == b.Key && a.Version == b.Version && bytes.Equal(a.Body, b.Body) && a.Expires.Equal(b.Expires)
}

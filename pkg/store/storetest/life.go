package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var lifeTests = map[string]func(*testing.T, store.Store){
	"every method fails after Close":                    testClosed,
	"Close during use stops all calls cleanly":          testCloseDuringUse,
	"a finished context is an error and writes nothing": testCancelled,
}

// calls returns a valid call of every method.
func calls(s store.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := s.Get(ctx, key("p", "s")); return err },
		"Query": func(ctx context.Context) error {
			_, _, err := s.Query(ctx, "p", "", store.Page{})
			return err
		},
		"Commit": func(ctx context.Context) error {
			return s.Commit(ctx, store.Tx{Writes: []store.Write{put(key("p", "s"), store.Any, "changed")},
				Events: []store.Event{event("new", "x")}})
		},
		"Outbox":    func(ctx context.Context) error { _, err := s.Outbox(ctx, 1); return err },
		"Published": func(ctx context.Context) error { return s.Published(ctx, "old") },
		"Sweep":     func(ctx context.Context) error { return s.Sweep(ctx, epoch.AddDate(1, 0, 0)) },
	}
}

func testClosed(t *testing.T, s store.Store) {
	commit(t, s, put(key("p", "s"), store.Absent, "x"))
	emit(t, s, event("old", "x"))
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func testCloseDuringUse(t *testing.T, s store.Store) {
	var closed atomic.Bool
	inParallel(t, func(ctx context.Context, worker int) error {
		if worker == 0 {
			defer closed.Store(true)
			return s.Close()
		}
		for i := 0; ; i++ {
			after := closed.Load()
			k := key(fmt.Sprint(worker), fmt.Sprint(i))
			err := s.Commit(ctx, store.Tx{Writes: []store.Write{put(k, store.Absent, "x")}})
			if err == nil {
				_, err = s.Get(ctx, k)
			}
			switch {
			case errors.Is(err, store.ErrClosed):
				return nil
			case err == nil && after:
				return errors.New("the store works after Close")
			case err != nil && !conflicting(err):
				return err
			}
		}
	})
}

func testCancelled(t *testing.T, s store.Store) {
	w := put(key("p", "s"), store.Absent, "x")
	w.Expires = epoch
	commit(t, s, w)
	emit(t, s, event("old", "x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), epoch)
	defer cancel()
	for name, call := range calls(s) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context = %v", name, err)
		}
		if err := call(expired); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s past its deadline = %v", name, err)
		}
	}
	wantOutbox(t, s, "old")
	if r := get(t, s, w.Key); len(r) == 1 && string(r[0].Body) != "x" {
		t.Errorf("the record is %s", show(r[0]))
	}
}

func (s *suite) testExpiry(t *testing.T) {
	if s.selfExpiring {
		t.Skip("the driver removes expired records by itself")
	}
	st := s.store(t)
	expiring := func(sort string, at time.Time) store.Write {
		w := put(key("p", sort), store.Any, sort)
		w.Expires = at
		return w
	}
	sweep := func(now time.Time, want ...string) {
		t.Helper()
		if err := st.Sweep(t.Context(), now); err != nil {
			t.Fatalf("Sweep: %v", err)
		}
		wantSorts(t, "after the sweep", queryAll(t, st, "p", "", 0), want)
	}
	minute := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	commit(t, st, expiring("1", minute(1)), expiring("2", minute(2)), expiring("3", minute(3)),
		expiring("never", time.Time{}), expiring("1 then 5", minute(1)), expiring("1 then never", minute(1)),
		expiring("5 then 1", minute(5)), expiring("1 then gone", minute(1)))
	// All expiry times have passed, but no record is removed before the sweep.
	wantSorts(t, "before", queryAll(t, st, "p", "", 0),
		[]string{"1", "1 then 5", "1 then gone", "1 then never", "2", "3", "5 then 1", "never"})
	commit(t, st, expiring("1 then 5", minute(5)), expiring("1 then never", time.Time{}),
		expiring("5 then 1", minute(1)), del(key("p", "1 then gone"), 1))

	sweep(minute(1), "1", "1 then 5", "1 then never", "2", "3", "5 then 1", "never") // at expiry, not after
	sweep(minute(1).Add(time.Second), "1 then 5", "1 then never", "2", "3", "never")
	commit(t, st, put(key("p", "1"), store.Absent, "again"))
	sweep(minute(3), "1", "1 then 5", "1 then never", "3", "never")
	sweep(minute(1), "1", "1 then 5", "1 then never", "3", "never") // an earlier moment
	sweep(minute(60), "1", "1 then never", "never")
	wantAbsent(t, st, key("p", "3"))

	var many []store.Write
	for i := range 1000 {
		many = append(many, expiring(fmt.Sprint("many/", i), minute(i)))
	}
	for chunk := range slices.Chunk(many, store.MaxItems) {
		commit(t, st, chunk...)
	}
	sweep(minute(2000), "1", "1 then never", "never")
}

func (s *suite) testReopen(t *testing.T) {
	st := s.open(t)
	a, b, gone := put(key("p", "a"), store.Absent, "a"), put(key("q", "b"), store.Absent, "b"),
		put(key("p", "gone"), store.Absent, "x")
	a.Expires = epoch
	commit(t, st, a, b, gone)
	commit(t, st, put(b.Key, 1, "b2"), del(gone.Key, 1))
	emit(t, st, event("z", "first"), event("published", "x"))
	emit(t, st, event("y", "second"))
	published(t, st, "published")

	for i := range 3 {
		st = s.reopen(t, st)
		want := store.Record{Key: a.Key, Version: 1, Body: a.Body, Expires: epoch}
		if r := get(t, st, a.Key); len(r) != 1 || !sameRecord(r[0], want) {
			t.Fatalf("Get = %+v, want %s", r, show(want))
		}
		wantRecord(t, st, b.Key, 2+store.Version(i), fmt.Sprint("b", 2+i)) //nolint:gosec // i counts up from 0
		wantAbsent(t, st, gone.Key)
		if got := outbox(t, st, 10); len(got) != 2 || got[0].ID != "z" || got[1].ID != "y" ||
			string(got[0].Body) != "first" {
			t.Fatalf("Outbox = %q, want z and y", eventIDs(got))
		}
		commit(t, st, put(b.Key, store.Any, fmt.Sprint("b", 3+i)))
	}
	if err := st.Sweep(t.Context(), epoch.Add(time.Second)); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	if !s.selfExpiring {
		wantAbsent(t, st, a.Key)
	}
	emit(t, st, event("x", "third")) // comes after the earlier events
	if got := eventIDs(drain(t, st)); !s.unordered && !slices.Equal(got, []string{"z", "y", "x"}) {
		t.Errorf("Outbox = %q, want z, y and x", got)
	}
	st = s.reopen(t, st)
	wantOutbox(t, st)
	if err := st.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

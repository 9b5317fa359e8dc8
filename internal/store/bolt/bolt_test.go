package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/storetest"
)

func open(t testing.TB, path string, o bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	paths := make(map[store.Store]string)
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path, bolt.Options{NoSync: true})
		paths[s] = path
		return s
	}, storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
		path := paths[s]
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, path, bolt.Options{NoSync: true})
		paths[again] = path
		return again
	}))
}

// TestConformanceInASharedFile runs the suite with a store that is opened and closed while its file stays open.
func TestConformanceInASharedFile(t *testing.T) {
	files := make(map[store.Store]*bolt.File)
	storetest.Run(t, func(t *testing.T) store.Store {
		f, err := bolt.OpenFile(filepath.Join(t.TempDir(), "shared.db"), bolt.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := f.Commit(t.Context(), func(tx *bolt.Tx) error {
			for _, k := range []string{"a", "r", "sq", "ss", "t"} { // keys of another user of the file
				tx.Put([]byte(k), []byte("of another user"))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		s := bolt.New(f)
		files[s] = f
		return s
	}, storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
		f := files[s]
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := bolt.New(f)
		files[again] = f
		return again
	}))
}

func TestSecondOpenNamesLockHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, bolt.Options{NoSync: true})
	defer s.Close()
	_, err := bolt.Open(path, bolt.Options{})
	if !errors.Is(err, bolt.ErrLocked) {
		t.Fatalf("Open of an open store = %v, want ErrLocked", err)
	}
	for _, part := range []string{"another tradewind has this folder open", path, fmt.Sprintf("process %d", os.Getpid())} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not contain %q", err, part)
		}
	}
}

func TestStoreFailsWhenFileIsClosed(t *testing.T) {
	f, err := bolt.OpenFile(filepath.Join(t.TempDir(), "shared.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	s := bolt.New(f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tx := store.Tx{Events: []store.Event{{ID: "e"}}}
	if err := s.Commit(t.Context(), tx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Commit = %v, want ErrClosed", err)
	}
	if _, err := s.Outbox(t.Context(), 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Outbox = %v, want ErrClosed", err)
	}
}

// TestSteadyStateDoesNotGrow writes, publishes, expires and deletes far more than the store holds at any time. The
// file must not grow.
func TestSteadyStateDoesNotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, bolt.Options{NoSync: true})
	now := time.Date(2017, 4, 1, 12, 0, 0, 0, time.UTC)
	body := make([]byte, 2000)
	written := 0
	for round := range 250 {
		now = now.Add(time.Second)
		tx := store.Tx{}
		for i := range 20 {
			n := fmt.Sprint(round, "/", i)
			tx.Writes = append(tx.Writes,
				store.Write{Key: store.Key{Partition: fmt.Sprint("job/", i), Sort: "job"}, Expect: store.Any, Body: body},
				store.Write{Key: store.Key{Partition: "seen", Sort: n}, Expect: store.Absent, Body: body, Expires: now},
				store.Write{Key: store.Key{Partition: fmt.Sprint("job/", round), Sort: fmt.Sprint("task/", i)}, Expect: store.Any, Body: body},
			)
			tx.Events = append(tx.Events, store.Event{ID: n, Body: body})
			written += 4 * len(body)
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		tidy(t, s, round, now)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(12 << 20); info.Size() > limit {
		t.Errorf("the file has %d bytes after %d bytes were written; it held at most %d at a time", info.Size(), written, 200_000)
	}
}

// tidy publishes and sweeps the events of a round, and deletes a job of an earlier round.
func tidy(t *testing.T, s store.Store, round int, now time.Time) {
	t.Helper()
	events, err := s.Outbox(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	if err := s.Published(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if round < 3 {
		return
	}
	var tx store.Tx
	for i := range 20 {
		tx.Writes = append(tx.Writes, store.Write{Op: store.Delete, Key: store.Key{Partition: fmt.Sprint("job/", round-3), Sort: fmt.Sprint("task/", i)}, Expect: store.Any})
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
}

func TestPublishedIsImmediateWithoutDiskWait(t *testing.T) {
	f, err := bolt.OpenFile(filepath.Join(t.TempDir(), "shared.db"), bolt.Options{NoSync: true, DeferDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bolt.New(f)
	if err := s.Commit(t.Context(), store.Tx{Events: []store.Event{{ID: "a"}, {ID: "b"}}}); err != nil {
		t.Fatal(err)
	}
	groups := f.Stats().Groups
	if err := s.Published(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Outbox(t.Context(), 10); err != nil || len(e) != 1 || e[0].ID != "b" {
		t.Errorf("Outbox = %v, %v, want b", e, err)
	}
	if n := f.Stats().Groups; n != groups {
		t.Errorf("Published waited for the disk %d times", n-groups)
	}
	// The same ID is committed again, which is a new event. The pending removal of the old event must not remove it.
	if err := s.Commit(t.Context(), store.Tx{Events: []store.Event{{ID: "a", Body: []byte("again")}}}); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Outbox(t.Context(), 10); err != nil || len(e) != 2 || e[1].ID != "a" || string(e[1].Body) != "again" {
		t.Errorf("Outbox = %v, %v, want b and the new a", e, err)
	}
}

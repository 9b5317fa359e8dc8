package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
	"github.com/tradewind-broker/tradewind/pkg/store/storetest"
)

// broken is a driver with one defect. The methods whose function is nil work.
type broken struct {
	store.Store
	commit    func(context.Context, store.Tx) error
	get       func(context.Context, ...store.Key) ([]store.Record, error)
	query     func(context.Context, string, string, store.Page) ([]store.Record, bool, error)
	outbox    func(context.Context, int) ([]store.Event, error)
	published func(context.Context, ...string) error
	sweep     func(context.Context, time.Time) error
	close     func() error
}

func (b *broken) Commit(ctx context.Context, tx store.Tx) error {
	if b.commit != nil {
		return b.commit(ctx, tx)
	}
	return b.Store.Commit(ctx, tx)
}

func (b *broken) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	if b.get != nil {
		return b.get(ctx, keys...)
	}
	return b.Store.Get(ctx, keys...)
}

func (b *broken) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	if b.query != nil {
		return b.query(ctx, partition, prefix, page)
	}
	return b.Store.Query(ctx, partition, prefix, page)
}

func (b *broken) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	if b.outbox != nil {
		return b.outbox(ctx, limit)
	}
	return b.Store.Outbox(ctx, limit)
}

func (b *broken) Published(ctx context.Context, ids ...string) error {
	if b.published != nil {
		return b.published(ctx, ids...)
	}
	return b.Store.Published(ctx, ids...)
}

func (b *broken) Sweep(ctx context.Context, now time.Time) error {
	if b.sweep != nil {
		return b.sweep(ctx, now)
	}
	return b.Store.Sweep(ctx, now)
}

func (b *broken) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Store.Close()
}

// defects are defects of a driver. The suite must detect each of them.
var defects = []struct {
	name, group string // group: the group of tests that must fail
	do          func(b *broken, s *mem.Store)
}{
	{"expectations are ignored", "Commit", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool { return w.Op == store.Check })
			for i := range tx.Writes {
				tx.Writes[i].Expect = store.Any
			}
			return s.Commit(ctx, tx)
		}
	}},
	{"checks are ignored", "Isolation", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), func(w store.Write) bool { return w.Op == store.Check })
			return s.Commit(ctx, tx)
		}
	}},
	{"writes are committed one by one", "Commit", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			if err := tx.Validate(); err != nil {
				return err
			}
			for _, w := range tx.Writes {
				if err := s.Commit(ctx, store.Tx{Writes: []store.Write{w}}); err != nil {
					return err
				}
			}
			return s.Commit(ctx, store.Tx{Events: tx.Events})
		}
	}},
	{"events are stored although the writes conflict", "Commit", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			err := s.Commit(ctx, tx)
			if errors.Is(err, store.ErrConflict) {
				_ = s.Commit(ctx, store.Tx{Events: tx.Events})
			}
			return err
		}
	}},
	{"a conflict names one key", "Commit", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			err := s.Commit(ctx, tx)
			var conflict *store.ConflictError
			if errors.As(err, &conflict) {
				return &store.ConflictError{Keys: conflict.Keys[:1]}
			}
			return err
		}
	}},
	{"the caller's slices are shared", "Commit", func(b *broken, s *mem.Store) {
		bodies := make(map[store.Key][]byte)
		b.commit = func(ctx context.Context, tx store.Tx) error {
			err := s.Commit(ctx, tx)
			if err == nil {
				for _, w := range tx.Writes {
					bodies[w.Key] = w.Body
				}
			}
			return err
		}
		b.get = func(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
			records, err := s.Get(ctx, keys...)
			for i := range records {
				records[i].Body = bodies[records[i].Key]
			}
			return records, err
		}
	}},
	{"large transactions are split", "Limits", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			for len(tx.Writes)+len(tx.Events) > store.MaxItems && len(tx.Writes) > 0 {
				if err := s.Commit(ctx, store.Tx{Writes: tx.Writes[:1]}); err != nil {
					return err
				}
				tx.Writes = tx.Writes[1:]
			}
			return s.Commit(ctx, tx)
		}
	}},
	{"Get returns another order", "Commit", func(b *broken, s *mem.Store) {
		b.get = func(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
			records, err := s.Get(ctx, keys...)
			slices.Reverse(records)
			return records, err
		}
	}},
	{"Get hides expired records", "Expiry", func(b *broken, s *mem.Store) {
		b.query = func(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
			records, more, err := s.Query(ctx, partition, prefix, page)
			return slices.DeleteFunc(records, func(r store.Record) bool { return !r.Expires.IsZero() && r.Expires.Before(time.Now()) }), more, err
		}
	}},
	{"expiry is lost", "Commit", func(b *broken, s *mem.Store) {
		b.commit = func(ctx context.Context, tx store.Tx) error {
			tx.Writes = slices.Clone(tx.Writes)
			for i := range tx.Writes {
				tx.Writes[i].Expires = time.Time{}
			}
			return s.Commit(ctx, tx)
		}
	}},
	{"a page continues with its last record", "Query", func(b *broken, s *mem.Store) {
		b.query = func(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
			page.After = strings.TrimSuffix(page.After, "a")
			return s.Query(ctx, partition, prefix, page)
		}
	}},
	{"more is never true", "Query", func(b *broken, s *mem.Store) {
		b.query = func(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
			records, _, err := s.Query(ctx, partition, prefix, page)
			return records, false, err
		}
	}},
	{"more is true for every full page", "Query", func(b *broken, s *mem.Store) {
		b.query = func(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
			records, more, err := s.Query(ctx, partition, prefix, page)
			return records, more || len(records) > 0 && len(records) == page.Limit, err
		}
	}},
	{"the prefix matches the partition", "Query", func(b *broken, s *mem.Store) {
		b.query = func(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
			return s.Query(ctx, partition, strings.TrimSuffix(prefix, "/"), page)
		}
	}},
	{"events come in the order of IDs", "Outbox_order", func(b *broken, s *mem.Store) {
		b.outbox = func(ctx context.Context, limit int) ([]store.Event, error) {
			events, err := s.Outbox(ctx, 1<<20)
			slices.SortFunc(events, func(a, b store.Event) int { return strings.Compare(a.ID, b.ID) })
			return events[:min(len(events), max(limit, 0))], err
		}
	}},
	{"reading the outbox empties it", "Outbox", func(b *broken, s *mem.Store) {
		b.outbox = func(ctx context.Context, limit int) ([]store.Event, error) {
			events, err := s.Outbox(ctx, limit)
			for _, e := range events {
				_ = s.Published(ctx, e.ID)
			}
			return events, err
		}
	}},
	{"publishing an event publishes all earlier ones", "Outbox", func(b *broken, s *mem.Store) {
		b.published = func(ctx context.Context, ids ...string) error {
			events, _ := s.Outbox(ctx, 1<<20)
			for _, e := range events {
				if slices.Contains(ids, e.ID) {
					break
				}
				_ = s.Published(ctx, e.ID)
			}
			return s.Published(ctx, ids...)
		}
	}},
	{"a published ID is never returned again", "Outbox", func(b *broken, s *mem.Store) {
		gone := make(map[string]bool)
		b.published = func(ctx context.Context, ids ...string) error {
			for _, id := range ids {
				gone[id] = true
			}
			return s.Published(ctx, ids...)
		}
		b.outbox = func(ctx context.Context, limit int) ([]store.Event, error) {
			events, err := s.Outbox(ctx, limit)
			return slices.DeleteFunc(events, func(e store.Event) bool { return gone[e.ID] }), err
		}
	}},
	{"a sweep removes records that expire now", "Expiry", func(b *broken, s *mem.Store) {
		b.sweep = func(ctx context.Context, now time.Time) error { return s.Sweep(ctx, now.Add(1)) }
	}},
	{"a sweep does nothing", "Model", func(b *broken, _ *mem.Store) {
		b.sweep = func(ctx context.Context, _ time.Time) error { return ctx.Err() }
	}},
	{"contexts are ignored", "Life", func(b *broken, s *mem.Store) {
		b.commit = func(_ context.Context, tx store.Tx) error { return s.Commit(context.Background(), tx) }
	}},
	{"a closed store keeps working", "Life", func(b *broken, _ *mem.Store) {
		b.close = func() error { return nil }
	}},
	{"reopening loses the outbox", "Reopen", func(*broken, *mem.Store) {}},
}

const defect = "TRADEWIND_TEST_DEFECT" // names the defect in the process that must fail

// TestBrokenDriver runs the suite in a process of its own, in which it must fail. In other processes it is skipped.
func TestBrokenDriver(t *testing.T) {
	name := os.Getenv(defect)
	if name == "" {
		t.Skip("run by TestSuiteDetectsEveryDefect")
	}
	open := func(s *mem.Store) store.Store {
		b := &broken{Store: s}
		for _, d := range defects {
			if d.name == name {
				d.do(b, s)
			}
		}
		return b
	}
	storetest.Run(t, func(*testing.T) store.Store { return open(mem.New()) }, storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
		kept := s.(*broken).Store.(*mem.Store).Clone()
		if name == "reopening loses the outbox" {
			for _, e := range kept.Pending() {
				if err := kept.Published(t.Context(), e.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(kept)
	}))
}

func TestSuiteDetectsEveryDefect(t *testing.T) {
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenDriver$/^"+d.group+"$", "-test.failfast", "-test.timeout=60s", "-rapid.nofailfile", "-rapid.shrinktime=0s") //nolint:gosec // this test's own program
			cmd.Env = append(os.Environ(), defect+"="+d.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL") || strings.Contains(string(out), "panic:") {
				t.Errorf("the suite did not detect the defect: %v\n%s", err, out)
			}
		})
	}
}

func TestSoundDriverPasses(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New() }, storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
		kept := s.(*mem.Store).Clone()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return kept
	}))
}

// Package mem keeps records in memory, for tests and for the simulator. It is
// deterministic: results depend only on the calls and their order. It is not
// durable and not made for many millions of records; use bolt for that.
package mem

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Store is a store.Store in memory. Make one with New.
type Store struct {
	mu         sync.RWMutex
	partitions map[string]partition
	outbox     outbox
	closed     bool
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{partitions: make(map[string]partition)}
}

// Clone returns an independent store with the same records and pending events, as
// of one moment. Both stores share the bodies, which never change. A clone of a
// closed store is open.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := &Store{partitions: make(map[string]partition, len(s.partitions)), outbox: s.outbox.clone()}
	for name, p := range s.partitions {
		c.partitions[name] = slices.Clone(p)
	}
	return c
}

// All iterates over every record, as of one moment, by partition and sort key. The
// loop may call the store. It also works on a closed store, so that tests can
// inspect it.
func (s *Store) All() iter.Seq[store.Record] {
	return func(yield func(store.Record) bool) {
		for _, r := range s.snapshot() {
			if !yield(*r) {
				return
			}
		}
	}
}

func (s *Store) snapshot() []*store.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*store.Record
	for _, name := range slices.Sorted(maps.Keys(s.partitions)) {
		all = append(all, s.partitions[name]...)
	}
	return all
}

// Pending returns the whole outbox in order.
func (s *Store) Pending() []store.Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.outbox.first(len(s.outbox.live))
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var records []store.Record
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return nil, fmt.Errorf("mem: get: %w", err)
		}
		if r := s.lookup(k); r != nil {
			records = append(records, *r)
		}
	}
	return records, nil
}

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, name, prefix string, page store.Page) ([]store.Record, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, false, err
	}
	if err := store.ValidateQuery(name, prefix, page); err != nil {
		return nil, false, fmt.Errorf("mem: query: %w", err)
	}
	p := s.partitions[name]
	var records []store.Record
	for size, i := 0, p.from(prefix, page.After); i < len(p); i++ {
		r := p[i]
		if !strings.HasPrefix(r.Key.Sort, prefix) {
			break
		}
		size += len(r.Key.Partition) + len(r.Key.Sort) + len(r.Body)
		if len(records) > 0 && (len(records) == page.Limit || size > store.MaxPageBytes) {
			return records, true, nil
		}
		records = append(records, *r)
	}
	return records, false, nil
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, tx store.Tx) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("mem: commit: %w", err)
	}
	if err := s.check(tx.Writes); err != nil {
		return fmt.Errorf("mem: commit: %w", err)
	}
	for i := range tx.Writes {
		s.apply(&tx.Writes[i])
	}
	for _, e := range tx.Events {
		s.outbox.put(e.ID, slices.Clone(e.Body))
	}
	return nil
}

func (s *Store) check(writes []store.Write) error {
	var conflicts []store.Key
	for i := range writes {
		w := &writes[i]
		if w.Expect == store.Any {
			continue
		}
		version := store.Absent
		if r := s.lookup(w.Key); r != nil {
			version = r.Version
		}
		if version != w.Expect {
			conflicts = append(conflicts, w.Key)
		}
	}
	if conflicts != nil {
		return &store.ConflictError{Keys: conflicts}
	}
	return nil
}

func (s *Store) apply(w *store.Write) {
	p := s.partitions[w.Key.Partition]
	i, found := p.find(w.Key.Sort)
	switch {
	case w.Op == store.Put:
		r := &store.Record{Key: w.Key, Version: 1, Body: slices.Clone(w.Body), Expires: store.RoundExpiry(w.Expires)}
		if found {
			r.Version = p[i].Version + 1
			p[i] = r
			return
		}
		s.partitions[w.Key.Partition] = slices.Insert(p, i, r)
	case w.Op == store.Delete && found:
		s.keep(w.Key.Partition, slices.Delete(p, i, i+1))
	}
}

// Outbox implements store.Store.
func (s *Store) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s.outbox.first(limit), nil
}

// Published implements store.Store.
func (s *Store) Published(ctx context.Context, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	s.outbox.remove(ids)
	return nil
}

// Sweep implements store.Store.
func (s *Store) Sweep(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	for name, p := range s.partitions {
		s.keep(name, slices.DeleteFunc(p, func(r *store.Record) bool {
			return !r.Expires.IsZero() && r.Expires.Before(now)
		}))
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("mem: %w", store.ErrClosed)
	}
	return ctx.Err()
}

func (s *Store) lookup(k store.Key) *store.Record {
	p := s.partitions[k.Partition]
	if i, found := p.find(k.Sort); found {
		return p[i]
	}
	return nil
}

func (s *Store) keep(name string, p partition) {
	if len(p) == 0 {
		delete(s.partitions, name)
		return
	}
	s.partitions[name] = p
}

// A partition holds its records by sort key. A record is replaced, never changed,
// so that readers and clones may keep it.
type partition []*store.Record

func (p partition) find(sort string) (int, bool) {
	return slices.BinarySearchFunc(p, sort, func(r *store.Record, sort string) int {
		return strings.Compare(r.Key.Sort, sort)
	})
}

// from returns the index of the first record that has prefix and comes after the
// sort key after. The caller must check the prefix: there may be no such record.
func (p partition) from(prefix, after string) int {
	i, found := p.find(max(prefix, after))
	if found && after >= prefix && after != "" {
		i++
	}
	return i
}

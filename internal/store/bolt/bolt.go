// Package bolt keeps records durably in one bbolt file, for a broker that runs in one process. Commits at the same time
// share one wait for the disk (File). A commit that has returned survives a crash of the process or of the machine.
// Readers never wait for the disk.
//
// The store can have its own file (Open) or share one with the bus (New).
package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Store is a store.Store in a bbolt file. Make one with Open or New.
type Store struct {
	file   *File
	owned  bool // Close also closes the file
	closed atomic.Bool

	// publishing holds the outbox numbers for which Published was called and that are
	// still in the file. Outbox holds the lock while it reads the file, so that a
	// number is never removed from here before Outbox sees it removed from the file.
	publishing struct {
		sync.RWMutex
		numbers map[uint64]struct{}
	}
}

var _ store.Store = (*Store)(nil)

// Open opens a store in its own file, created with mode 0600 if missing. It fails
// with ErrLocked if another process has it open.
func Open(path string, options Options) (*Store, error) {
	f, err := OpenFile(path, options)
	if err != nil {
		return nil, err
	}
	s := New(f)
	s.owned = true
	return s, nil
}

// New returns a store in a file that other users share. Close leaves the file open.
func New(f *File) *Store {
	s := &Store{file: f}
	s.publishing.numbers = make(map[uint64]struct{})
	return s
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, tx store.Tx) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("bolt: commit: %w", err)
	}
	if len(tx.Writes)+len(tx.Events) == 0 {
		return nil
	}
	return s.wrapError("commit", s.file.Commit(ctx, newCommit(s, tx).apply))
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return nil, fmt.Errorf("bolt: get: %w", err)
		}
	}
	var records []store.Record
	err := s.file.View(func(tx *Tx) error {
		for _, k := range keys {
			value := tx.Get(recordKey(k))
			if value == nil {
				continue
			}
			r, err := decodeRecord(k, value)
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	if err != nil {
		return nil, s.wrapError("get", err)
	}
	return records, nil
}

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	if err := s.usable(ctx); err != nil {
		return nil, false, err
	}
	if err := store.ValidateQuery(partition, prefix, page); err != nil {
		return nil, false, fmt.Errorf("bolt: query: %w", err)
	}
	var records []store.Record
	var more bool
	err := s.file.View(func(tx *Tx) (err error) {
		records, more, err = query(tx, partition, prefix, page)
		return err
	})
	if err != nil {
		return nil, false, s.wrapError("query", err)
	}
	return records, more, nil
}

// Sweep implements store.Store.
func (s *Store) Sweep(ctx context.Context, now time.Time) error {
	for {
		if err := s.usable(ctx); err != nil {
			return err
		}
		round := sweep{now: now}
		if err := s.file.Commit(ctx, round.apply); err != nil {
			return s.wrapError("sweep", err)
		}
		if !round.more {
			return nil
		}
	}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.owned {
		return s.file.Close()
	}
	// Flush, or else the next store in this file would see the published events again.
	if err := s.file.Flush(context.Background()); !errors.Is(err, ErrClosed) {
		return s.wrapError("close", err)
	}
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("bolt: %w", store.ErrClosed)
	}
	return ctx.Err()
}

// wrapError converts the file's errors to the store's errors.
func (s *Store) wrapError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return fmt.Errorf("bolt: %s: %w", what, store.ErrClosed)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("bolt: %s: %w", what, err)
}

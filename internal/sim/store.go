package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// recordStore is the store that handlers use: the in-memory store, with injected faults at each operation. The
// checker gets every applied transaction as it was requested.
type recordStore struct {
	w   *world
	mem *mem.Store
	// seen are the queues as of a short time ago, for breaks.NoHold.
	seen   []store.Record
	seenAt time.Time
}

var _ store.Store = (*recordStore)(nil)

func newRecordStore(w *world) *recordStore { return &recordStore{w: w, mem: mem.New()} }

// fails draws whether an operation is refused.
func (s *recordStore) fails() error {
	if s.w.running != nil && s.w.rand.store.Chance(s.w.faults.Throttle) {
		s.w.Count("store throttled")
		return fmt.Errorf("sim: %w", store.ErrThrottled)
	}
	return nil
}

// Get implements store.Store.
func (s *recordStore) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	s.w.before("get")
	if err := s.fails(); err != nil {
		return nil, err
	}
	if s.w.opt.Break == breaks.Communal {
		return s.getCommunal(ctx, keys)
	}
	return s.mem.Get(ctx, keys...)
}

// getCommunal reads records from where a store with breaks.Communal keeps them.
func (s *recordStore) getCommunal(ctx context.Context, keys []store.Key) (all []store.Record, err error) {
	for _, k := range keys {
		found, err := s.mem.Get(ctx, s.w.opt.Break.Key(k))
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			r.Key = k
			all = append(all, r)
		}
	}
	return all, nil
}

// Query implements store.Store.
func (s *recordStore) Query(ctx context.Context, partition, prefix string,
	page store.Page) ([]store.Record, bool, error) {
	s.w.before("query")
	if err := s.fails(); err != nil {
		return nil, false, err
	}
	if s.w.opt.Break == breaks.NoHold && partition == "queues" {
		return s.staleQueues(ctx)
	}
	at := s.w.opt.Break.Key(store.Key{Partition: partition}).Partition
	found, more, err := s.mem.Query(ctx, at, prefix, page)
	for i := range found {
		found[i].Key.Partition = partition
	}
	return found, more, err
}

// lately is the maximum age of a session's data about the queues of its tree, if it does not lock them. Without
// locks, old data are as possible as new data.
const lately = 10 * time.Second

func (s *recordStore) staleQueues(ctx context.Context) ([]store.Record, bool, error) {
	if s.w.Now.Sub(s.seenAt) < lately {
		return s.seen, false, nil
	}
	var err error
	s.seen, _, err = s.mem.Query(ctx, "queues", "", store.Page{})
	s.seenAt = s.w.Now
	return s.seen, false, err
}

// Commit implements store.Store.
func (s *recordStore) Commit(ctx context.Context, tx store.Tx) error {
	s.w.before("commit")
	tx = s.w.opt.Break.FunctionTx(tx)
	if err := s.fails(); err != nil {
		return err
	}
	if s.w.rand.store.Chance(s.w.faults.Conflict) {
		s.w.Count("store conflict")
		return &store.ConflictError{Keys: keysOf(tx)}
	}
	if err := s.mem.Commit(ctx, s.w.opt.Break.StoreTx(tx)); err != nil {
		if errors.Is(err, store.ErrConflict) {
			s.w.Count("true conflict")
		}
		return err
	}
	s.w.Say(s.w.actor(), "commit", sketch(tx))
	s.w.check.Owned(s.w.function(), tx)
	s.w.check.Committed(tx)
	if len(tx.Events) > 0 {
		s.w.engine.relayWithin(relayIdle) // even if the process crashes before it can request it
	}
	s.w.after("commit")
	if s.w.rand.store.Chance(s.w.faults.Unknown) {
		s.w.Count("store outcome unknown")
		return weather.ErrUnknown
	}
	return nil
}

// Outbox implements store.Store.
func (s *recordStore) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	s.w.before("outbox")
	if err := s.fails(); err != nil {
		return nil, err
	}
	pending, err := s.mem.Outbox(ctx, limit)
	if err == nil {
		s.w.check.Outbox(pending, limit)
	}
	return pending, err
}

// Published implements store.Store.
func (s *recordStore) Published(ctx context.Context, ids ...string) error {
	s.w.before("published")
	if err := s.fails(); err != nil {
		return err
	}
	if err := s.mem.Published(ctx, ids...); err != nil {
		return err
	}
	s.w.check.Marked(ids)
	s.w.after("published")
	return nil
}

// sweepSeldom is the number of calls of Sweep of which only one does anything, because a store that expires records
// by itself takes its time as well.
const sweepSeldom = 32

// Sweep implements store.Store.
func (s *recordStore) Sweep(ctx context.Context, now time.Time) error {
	s.w.before("sweep")
	if s.w.rand.store.IntN(sweepSeldom) > 0 {
		return nil
	}
	return s.mem.Sweep(ctx, now)
}

// Close implements store.Store.
func (s *recordStore) Close() error { return s.mem.Close() }

func keysOf(tx store.Tx) []store.Key {
	keys := make([]store.Key, len(tx.Writes))
	for i := range tx.Writes {
		keys[i] = tx.Writes[i].Key
	}
	return keys
}

// sketch summarises a transaction for the history.
func sketch(tx store.Tx) string {
	var b strings.Builder
	for i := range tx.Writes {
		k := tx.Writes[i].Key
		if strings.HasPrefix(k.Partition, "seen#") {
			continue
		}
		if tx.Writes[i].Op == store.Delete {
			b.WriteByte('-')
		}
		b.WriteString(k.Partition)
		b.WriteByte('/')
		b.WriteString(k.Sort)
		b.WriteByte(' ')
	}
	for i := range tx.Events {
		b.WriteByte('!')
		b.WriteString(tx.Events[i].ID)
		b.WriteByte(' ')
	}
	return b.String()
}

// function returns the function for which the process in control writes, or "" outside of a function.
func (w *world) function() string {
	switch {
	case w.running == nil:
		return ""
	case w.running.name == watching:
		return record.FnServices
	case slices.Contains(events.Functions(), w.running.name):
		return w.running.name
	}
	return record.FnAPI
}

// actor returns the name of the process in control.
func (w *world) actor() string {
	if w.running == nil {
		return "world"
	}
	return w.running.host.name + ":" + w.running.name
}

package bolt

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// outboxBytes bounds the events that Outbox returns at once; the first one may be larger.
const outboxBytes = 4 << 20

// Outbox implements store.Store.
func (s *Store) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	s.publishing.RLock()
	defer s.publishing.RUnlock()
	var events []store.Event
	err := s.file.View(func(tx *Tx) error {
		size := 0
		for key, value := range tx.Scan(outboxSpace, nil) {
			if len(events) >= limit || size >= outboxBytes {
				break
			}
			number, err := readNumber(key[len(outboxSpace):])
			if err != nil {
				return err
			}
			if _, gone := s.publishing.numbers[number]; gone {
				continue
			}
			e, err := decodeEvent(value)
			if err != nil {
				return err
			}
			events = append(events, e)
			size += len(value)
		}
		return nil
	})
	if err != nil {
		return nil, s.wrapError("outbox", err)
	}
	return events, nil
}

// Published implements store.Store. The removal is written with the next group of
// commits and not waited for. If a crash loses it, the events are published again,
// just as if the crash had come a moment earlier.
func (s *Store) Published(ctx context.Context, ids ...string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	r, err := s.find(ids)
	if err != nil {
		return s.wrapError("published", err)
	}
	s.publishing.Lock()
	for _, e := range r.events {
		s.publishing.numbers[e.number] = struct{}{}
	}
	s.publishing.Unlock()
	if err := s.file.Defer(r.apply, r.committed); err != nil {
		r.committed() // so that Outbox returns the events again
		return s.wrapError("published", err)
	}
	return nil
}

// find looks up the pending events that have the IDs.
func (s *Store) find(ids []string) (*removal, error) {
	r := &removal{store: s}
	err := s.file.View(func(tx *Tx) error {
		for _, id := range ids {
			key := eventKey(id)
			value := tx.Get(key)
			if value == nil {
				continue
			}
			number, err := readNumber(value)
			if err != nil {
				return err
			}
			r.events = append(r.events, pending{key: key, number: number})
		}
		return nil
	})
	return r, err
}

type pending struct {
	key    []byte
	number uint64
}

// removal removes published events from the file.
type removal struct {
	store  *Store
	events []pending
}

// apply is the change of the file. An event that was published and then committed
// again has a new number and stays.
func (r *removal) apply(tx *Tx) error {
	for _, e := range r.events {
		tx.Delete(outboxKey(e.number))
		value := tx.Get(e.key)
		if value == nil {
			continue
		}
		number, err := readNumber(value)
		if err != nil {
			return err
		}
		if number == e.number {
			tx.Delete(e.key)
		}
	}
	return nil
}

func (r *removal) committed() {
	r.store.publishing.Lock()
	defer r.store.publishing.Unlock()
	for _, e := range r.events {
		delete(r.store.publishing.numbers, e.number)
	}
}

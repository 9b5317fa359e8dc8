package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// commit is a transaction on its way into the file. The caller's goroutine encodes its
// writes; the goroutine that makes all changes only sets the versions.
type commit struct {
	store  *Store
	writes []write
	events []encodedEvent
}

type write struct {
	op      store.Op
	name    store.Key
	expect  store.Version
	expires uint64 // as in the value's header
	key     []byte
	value   []byte
	before  header // header of the record it replaces; version Absent if there is none
}

type encodedEvent struct {
	key   []byte
	value []byte
}

func newCommit(s *Store, tx store.Tx) *commit {
	c := &commit{store: s, writes: make([]write, len(tx.Writes)), events: make([]encodedEvent, len(tx.Events))}
	for i := range tx.Writes {
		w := &tx.Writes[i]
		c.writes[i] = write{op: w.Op, name: w.Key, expect: w.Expect, key: recordKey(w.Key)}
		if w.Op != store.Put {
			continue
		}
		c.writes[i].value = encodeRecord(w.Body, w.Expires)
		if !w.Expires.IsZero() {
			c.writes[i].expires = orderedSecond(store.RoundExpiry(w.Expires))
		}
	}
	for i, e := range tx.Events {
		c.events[i] = encodedEvent{key: eventKey(e.ID), value: encodeEvent(e)}
	}
	return c
}

// apply is the change of the file. It fails with a store.ConflictError.
func (c *commit) apply(tx *Tx) error {
	if err := c.check(tx); err != nil {
		return err
	}
	for i := range c.writes {
		c.writes[i].apply(tx)
	}
	for _, e := range c.events {
		number, err := c.store.numberOf(tx, e.key)
		if err != nil {
			return err
		}
		tx.Put(outboxKey(number), e.value)
	}
	return nil
}

func (c *commit) check(tx *Tx) error {
	var conflicts []store.Key
	for i := range c.writes {
		w := &c.writes[i]
		w.before = header{}
		if value := tx.Get(w.key); value != nil {
			h, err := decodeHeader(value)
			if err != nil {
				return fmt.Errorf("%q: %w", w.name, err)
			}
			w.before = h
		}
		if w.expect != store.Any && w.expect != w.before.version {
			conflicts = append(conflicts, w.name)
		}
	}
	if conflicts != nil {
		return &store.ConflictError{Keys: conflicts}
	}
	return nil
}

func (w *write) apply(tx *Tx) {
	switch {
	case w.op == store.Check:
		return
	case w.op == store.Put:
		setVersion(w.value, w.before.version+1)
		tx.Put(w.key, w.value)
	case w.before.version != store.Absent:
		tx.Delete(w.key)
	}
	if w.before.expires == w.expires {
		return
	}
	if w.before.expires != 0 {
		tx.Delete(expiryKey(w.before.expires, w.key))
	}
	if w.expires != 0 {
		tx.Put(expiryKey(w.expires, w.key), nil)
	}
}

// numberOf returns the outbox number of the pending event with the same ID, or else the next number.
func (s *Store) numberOf(tx *Tx, eventKey []byte) (uint64, error) {
	if number := tx.Get(eventKey); number != nil {
		return readNumber(number)
	}
	number := s.file.Next()
	tx.Put(eventKey, binary.BigEndian.AppendUint64(nil, number))
	return number, nil
}

// sweepRecords is the number of records that one change of a sweep removes.
const sweepRecords = 1000

// sweep is the removal of some expired records.
type sweep struct {
	now  time.Time
	more bool // expired records remain
}

// apply is the change of the file.
func (s *sweep) apply(tx *Tx) error {
	removed := 0
	for key := range tx.Scan(expirySpace, nil) {
		second, record, err := readExpiryKey(key)
		if err != nil {
			return err
		}
		if !timeOf(second).Before(s.now) {
			break
		}
		if removed == sweepRecords {
			s.more = true
			break
		}
		removed++
		tx.Delete(record)
		tx.Delete(bytes.Clone(key))
	}
	return nil
}

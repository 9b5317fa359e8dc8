package boltfile

import (
	"bytes"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"
)

// dataBucket is the one bucket of keys and values.
var dataBucket = []byte("data")

// MaxKeyBytes is the longest key.
const MaxKeyBytes = bbolt.MaxKeySize

// Tx is a state of the file, and in a change what is written on top of it. It is
// one goroutine's, and ends with the function it was given to.
type Tx struct {
	bucket *bbolt.Bucket
	writes []write // of the change, until it has succeeded
}

type write struct {
	key, value []byte
	deleted    bool
}

// Get returns the value of key, or nil if there is none; a value of no bytes is not
// nil. It does not see what the change itself wrote.
func (tx *Tx) Get(key []byte) []byte { return tx.bucket.Get(key) }

// Put writes a value. It keeps key, of 1 to MaxKeyBytes bytes, and value, which must not
// be changed any more and not be what Get or Scan returned.
func (tx *Tx) Put(key, value []byte) {
	tx.writes = append(tx.writes, write{key: key, value: value})
}

// Delete removes a key, if it is there. It keeps key, as Put does.
func (tx *Tx) Delete(key []byte) {
	tx.writes = append(tx.writes, write{key: key, deleted: true})
}

// Scan iterates in order over the keys that start with prefix and are not before
// from, with their values. It does not see what the change itself wrote.
func (tx *Tx) Scan(prefix, from []byte) iter.Seq2[[]byte, []byte] {
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	return func(yield func(key, value []byte) bool) {
		c := tx.bucket.Cursor()
		for key, value := c.Seek(from); key != nil && bytes.HasPrefix(key, prefix); key, value = c.Next() {
			if !yield(key, value) {
				return
			}
		}
	}
}

// make lets a change write, and keeps what it wrote if it succeeds: all of it or
// nothing. broken says that the transaction cannot be relied on any more.
func (tx *Tx) make(change func(*Tx) error) (broken bool, err error) {
	tx.writes = tx.writes[:0]
	if err := change(tx); err != nil {
		return false, err
	}
	for _, w := range tx.writes {
		if len(w.key) == 0 || len(w.key) > MaxKeyBytes || len(w.value) > bbolt.MaxValueSize {
			return false, fmt.Errorf("boltfile: a key of %d bytes with a value of %d", len(w.key), len(w.value))
		}
	}
	for _, w := range tx.writes {
		if err := w.apply(tx.bucket); err != nil {
			return true, fmt.Errorf("boltfile: %w", err)
		}
	}
	return false, nil
}

func (w write) apply(bucket *bbolt.Bucket) error {
	if w.deleted {
		return bucket.Delete(w.key)
	}
	return bucket.Put(w.key, w.value)
}

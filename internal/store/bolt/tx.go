package bolt

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

// Tx is a state of the file and, in a change, the writes on top of it. It belongs to
// one goroutine and is invalid after the function that received it returns.
type Tx struct {
	bucket *bbolt.Bucket
	writes []fileWrite // of the current change; applied when it succeeds
}

type fileWrite struct {
	key, value []byte
	deleted    bool
}

// Get returns the value of key, or nil if there is none; an empty value is not
// nil. Get does not see the change's own writes.
func (tx *Tx) Get(key []byte) []byte { return tx.bucket.Get(key) }

// Put writes a value. It keeps key (1 to MaxKeyBytes bytes) and value: the caller must not change
// them any more, and they must not be slices that Get or Scan returned.
func (tx *Tx) Put(key, value []byte) {
	tx.writes = append(tx.writes, fileWrite{key: key, value: value})
}

// Delete removes a key, if it exists. It keeps key, like Put.
func (tx *Tx) Delete(key []byte) {
	tx.writes = append(tx.writes, fileWrite{key: key, deleted: true})
}

// Scan iterates in order over the keys that start with prefix and are not before
// from, with their values. It does not see the change's own writes.
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

// run runs a change. If the change succeeds, all its writes are applied, otherwise
// none. If broken is true, the transaction must not be used any more.
func (tx *Tx) run(change func(*Tx) error) (broken bool, err error) {
	tx.writes = tx.writes[:0]
	if err := change(tx); err != nil {
		return false, err
	}
	for _, w := range tx.writes {
		if len(w.key) == 0 || len(w.key) > MaxKeyBytes || len(w.value) > bbolt.MaxValueSize {
			return false, fmt.Errorf("bolt: bad size: key of %d bytes, value of %d bytes", len(w.key), len(w.value))
		}
	}
	for _, w := range tx.writes {
		if err := w.apply(tx.bucket); err != nil {
			return true, fmt.Errorf("bolt: %w", err)
		}
	}
	return false, nil
}

func (w fileWrite) apply(bucket *bbolt.Bucket) error {
	if w.deleted {
		return bucket.Delete(w.key)
	}
	return bucket.Put(w.key, w.value)
}

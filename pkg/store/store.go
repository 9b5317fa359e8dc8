// Package store is the port through which handlers keep records: small
// versioned items in partitions, written in conditional transactions that also
// carry the events to publish (the transactional outbox).
//
// It is shaped after what DynamoDB gives (single table, partition and sort key,
// TransactWriteItems with conditions, at most 100 items a transaction, items
// under 400 KB, TTL, streams), because that is the product's home; bolt and mem
// are held to the same limits, so that nothing works on a laptop that would
// fail in the cloud. It is not a general database: there are no secondary
// indexes and no scans over partitions.
//
// storetest is the conformance suite that every driver passes.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits that every driver enforces: DynamoDB's, less what its driver adds to an item (the
// names of attributes, the version) and to a transaction.
const (
	MaxItems     = 100            // writes plus events in one transaction
	MaxItemBytes = 399 << 10      // body plus key of one record, body plus ID of one event
	MaxTxBytes   = 4<<20 - 64<<10 // bodies, keys and IDs of one transaction
	MaxKeyBytes  = 1024           // each half of a key, and an event's ID
	MaxPageBytes = 1 << 20        // bodies and keys of one page of a query, its first record excepted
)

// Errors that every driver returns, wrapped with detail.
var (
	// ErrConflict: a version was not the one expected. Load again and retry.
	ErrConflict = errors.New("store: version conflict")
	// ErrTooLarge: an item or transaction is over the limits. Do not retry.
	ErrTooLarge = errors.New("store: over the size limit")
	// ErrInvalid: a key half or event ID that is empty or not UTF-8, a key or event ID twice in one
	// transaction, an unknown operation, a check of nothing. Do not retry.
	ErrInvalid = errors.New("store: invalid transaction")
	// ErrThrottled: the store asks to be called less. Back off and retry.
	ErrThrottled = errors.New("store: throttled")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
)

// ConflictError says which keys of a transaction did not have the expected
// version: all of them, in the order of the writes. errors.Is(err, ErrConflict)
// holds of it. A driver whose transactions collide may also name a key that
// another transaction was writing at the same moment.
type ConflictError struct{ Keys []Key }

func (e *ConflictError) Error() string {
	names := make([]string, len(e.Keys))
	for i, k := range e.Keys {
		names[i] = k.String()
	}
	return fmt.Sprintf("%v on %s", ErrConflict, strings.Join(names, ", "))
}

// Is makes a ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Key identifies a record: the partition it lies in, and its place in the
// partition's byte order. Neither half is empty; both are UTF-8, any code point
// included.
type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Version counts the writes of one record, from 1. Absent (0) is the version of a
// record that does not exist; a record deleted and written again may start at 1.
type Version uint64

// Expectations of a Write beside an exact version.
const (
	Absent Version = 0           // the record must not exist
	Any    Version = ^Version(0) // no condition
)

// Record is a stored item. Body is the caller's to read, not to change.
type Record struct {
	Key     Key
	Version Version
	Body    []byte
	Expires time.Time // zero is never
}

// Op is what a Write does.
type Op uint8

// A Put writes the body, a Delete removes the record (an absent one too, when
// the expectation is Any or Absent), a Check only asserts the version.
const (
	Put Op = iota
	Delete
	Check
)

// Write is one conditional operation of a transaction.
type Write struct {
	Op     Op
	Key    Key
	Expect Version // of a Check, never Any
	Body   []byte  // of a Put; the driver copies it
	// Expires lets the driver remove the record some time after this moment
	// (DynamoDB: within days). Readers must not rely on its absence. It is kept
	// in whole seconds, rounded up, and replaced by every Put.
	Expires time.Time
}

// Event is a message to publish, committed with the writes that cause it.
type Event struct {
	// ID is unique; the same ID committed again replaces the pending event. As
	// Published goes by ID, an event that must not be lost has an ID of its own.
	ID   string
	Body []byte // a CloudEvents JSON envelope; the driver copies it
}

// Tx is a transaction: all of it is committed, or nothing.
type Tx struct {
	Writes []Write
	Events []Event
}

// Page bounds a query.
type Page struct {
	Limit int    // at most so many records; 0 is as many as MaxPageBytes lets through
	After string // sort key to continue after (exclusive)
}

// Store keeps records. All methods are safe for concurrent use. Reads are
// consistent: they see every transaction committed before the call. They are not
// a snapshot: two records read together may stem from two moments, which a
// transaction that checks both versions finds out.
//
// A method called with a context that is done returns its error and changes nothing.
type Store interface {
	// Get returns the records that exist among keys, in the order of keys. It fails with
	// ErrInvalid on a key that no record can have.
	Get(ctx context.Context, keys ...Key) ([]Record, error)
	// Query returns the records of a partition whose sort key starts with prefix, in byte
	// order of the sort key. more says that others follow the last one returned. A page may be
	// shorter than its limit (MaxPageBytes) though others follow, but is then not empty.
	Query(ctx context.Context, partition, prefix string, page Page) (records []Record, more bool, err error)
	// Commit applies tx atomically. It fails with ErrConflict when any expectation does not hold,
	// with ErrTooLarge or ErrInvalid as Tx.Validate does. After any other error the outcome is
	// unknown: a driver that can tell must not report failure of a transaction that was applied.
	Commit(ctx context.Context, tx Tx) error
	// Outbox returns up to limit events committed and not yet marked published, oldest first
	// as far as the driver knows their order, those of one transaction in its order.
	Outbox(ctx context.Context, limit int) ([]Event, error)
	// Published removes events from the outbox. Unknown IDs are ignored. A crash soon after may
	// bring the events back: they are then published twice, never not at all.
	Published(ctx context.Context, ids ...string) error
	// Sweep removes records that expired before now, where the driver does not do so by itself.
	Sweep(ctx context.Context, now time.Time) error
	// Close releases the driver's resources. Calls after it fail with ErrClosed, Close itself does not.
	Close() error
}

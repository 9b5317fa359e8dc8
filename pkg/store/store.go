// Package store is the port through which handlers keep records: small
// versioned items in partitions, written in conditional transactions that also
// carry the events to publish (the transactional outbox).
//
// It is shaped after DynamoDB (single table, partition and sort key,
// TransactWriteItems with conditions, at most 100 items a transaction, items
// under 400 KB, TTL, streams), because the product runs on it; bolt and mem
// enforce the same limits, so that code that works on a laptop also works in
// the cloud. It is not a general database: it has no secondary indexes and no
// scans over partitions.
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

// Limits that every driver enforces. They are DynamoDB's limits, minus the data that the dynamo driver adds to an
// item (attribute names, the version) and to a transaction.
const (
	MaxItems     = 100            // writes plus events in one transaction
	MaxItemBytes = 399 << 10      // body plus key of one record, body plus ID of one event
	MaxTxBytes   = 4<<20 - 64<<10 // bodies, keys and IDs of one transaction
	MaxKeyBytes  = 1024           // each half of a key, and an event's ID
	MaxPageBytes = 1 << 20        // bodies and keys of one page of a query; its first record may be larger
)

// Errors that every driver returns, wrapped with detail.
var (
	// ErrConflict means that a version was not the one expected. Load again and retry.
	ErrConflict = errors.New("store: version conflict")
	// ErrTooLarge means that an item or transaction exceeds the limits. Do not retry.
	ErrTooLarge = errors.New("store: over the size limit")
	// ErrInvalid is returned for an empty or non-UTF-8 partition, sort key or event ID, a duplicate key or event ID in
	// one transaction, an unknown operation, or a Check with Expect Any. Do not retry.
	ErrInvalid = errors.New("store: invalid transaction")
	// ErrThrottled means that the store is overloaded. Back off and retry.
	ErrThrottled = errors.New("store: throttled")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("store: closed")
)

// ConflictError lists the keys of a transaction that did not have the expected
// version: all of them, in the order of the writes. It matches ErrConflict with
// errors.Is. If two transactions collide, a driver may also list a key that the
// other one was writing at the same moment.
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

// Key identifies a record: its partition and its sort key, which orders the
// records of a partition by bytes. Both must be non-empty UTF-8; any code point
// is allowed.
type Key struct{ Partition, Sort string }

func (k Key) String() string { return k.Partition + "/" + k.Sort }

// Version counts the writes of one record, from 1. Absent (0) is the version of a
// record that does not exist; a record deleted and written again may start at 1.
type Version uint64

// Expectations of a Write other than an exact version.
const (
	Absent Version = 0           // the record must not exist
	Any    Version = ^Version(0) // no condition
)

// Record is a stored item. Callers must not change Body.
type Record struct {
	Key     Key
	Version Version
	Body    []byte
	Expires time.Time // zero means never
}

// Op is the kind of a Write.
type Op uint8

// Put writes the body. Delete removes the record; with Any or Absent the record
// may be missing. Check only asserts the version.
const (
	Put Op = iota
	Delete
	Check
)

// Write is one conditional operation of a transaction.
type Write struct {
	Op     Op
	Key    Key
	Expect Version // a Check must not use Any
	Body   []byte  // only for a Put; the driver copies it
	// Expires lets the driver remove the record some time after this moment
	// (DynamoDB: within days), so readers must ignore expired records themselves. It
	// is stored in whole seconds, rounded up, and every Put replaces it.
	Expires time.Time
}

// Event is a message to publish, committed with the writes that cause it.
type Event struct {
	// ID is unique. Committing the same ID again replaces the pending event. Published removes
	// events by ID, so an event that must not be lost needs an ID that no other event uses.
	ID   string
	Body []byte // a CloudEvents JSON envelope; the driver copies it
}

// Tx is a transaction: it is committed completely or not at all.
type Tx struct {
	Writes []Write
	Events []Event
}

// Page bounds a query.
type Page struct {
	Limit int    // maximum number of records; 0 means as many as fit in MaxPageBytes
	After string // sort key to continue after (exclusive)
}

// Store keeps records. All methods are safe for concurrent use. Reads are
// consistent: they see every transaction committed before the call. They are not
// a snapshot: two records read together may be from two moments. A transaction
// that checks both versions detects this.
//
// A method called with a finished context returns the context's error and changes nothing.
type Store interface {
	// Get returns those records of keys that exist, in the order of keys. It fails with
	// ErrInvalid for a malformed key.
	Get(ctx context.Context, keys ...Key) ([]Record, error)
	// Query returns the records of a partition whose sort key starts with prefix, in byte order of the sort key. more
	// is true if other records follow the last returned one. A page may be shorter than its limit (because of
	// MaxPageBytes) even if others follow, but then it is not empty.
	Query(ctx context.Context, partition, prefix string, page Page) (records []Record, more bool, err error)
	// Commit applies tx atomically. It fails with ErrConflict if any expectation does not hold,
	// and with ErrTooLarge or ErrInvalid like Tx.Validate. After any other error the outcome is
	// unknown: if a driver can find out that a transaction was applied, it must not return an error.
	Commit(ctx context.Context, tx Tx) error
	// Outbox returns up to limit events that are committed and not yet marked published. The oldest
	// come first, as far as the driver knows their order; events of one transaction keep their order.
	Outbox(ctx context.Context, limit int) ([]Event, error)
	// Published removes events from the outbox. Unknown IDs are ignored. A crash soon after may
	// restore the events: they are then published twice, but never lost.
	Published(ctx context.Context, ids ...string) error
	// Sweep removes records that expired before now, unless the driver removes them by itself.
	Sweep(ctx context.Context, now time.Time) error
	// Close releases the driver's resources. Later calls fail with ErrClosed; calling Close again is allowed.
	Close() error
}

// Package boltfile is one bbolt file that several drivers share, written by group
// commit: changes that arrive while the disk is busy are made together, in one
// transaction that waits for the disk once. The store and the bus of a broker in one
// process lie in one such file, so that a handler's commit, the relay's publishing
// and the deliveries of that moment are one write.
//
// One goroutine makes the changes, one after the other. What a change writes reaches
// the transaction only when the change has succeeded, so that one that fails leaves
// nothing and harms no other; bbolt's own Batch would roll all of them back and call
// them again, after making each caller wait out a timer. Readers see the last commit and
// wait for no disk.
//
// All keys lie in one bucket and one order; each user begins its keys with bytes of
// its own ("s" the store, "b" the bus). Beside the file lies PATH.pid while it is open.
package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Errors of a File, wrapped with detail.
var (
	// ErrLocked: another process, or another File of this one, has the file open.
	ErrLocked = errors.New("another tradewind has this folder open")
	// ErrClosed: the file was closed.
	ErrClosed = errors.New("boltfile: closed")
	// ErrFailed: the disk failed in a way that leaves open what it holds. Open the file anew.
	ErrFailed = errors.New("boltfile: the disk failed, and the file must be opened anew")
	// ErrCorrupt: the file holds what this package did not write.
	ErrCorrupt = errors.New("boltfile: corrupt file")
)

// Options of a File. The zero value is right for use.
type Options struct {
	// NoSync does not wait for the disk: a crash of the machine, not of the process, may
	// lose commits or the file. For tests.
	NoSync bool
	// DeferDelay is how long a deferred change waits for another to go with; 0 is 10 ms.
	DeferDelay time.Duration

	maxBytes int // of the file, for tests of a full disk
}

// Stats counts what a File did since it was opened.
type Stats struct {
	Groups  uint64 // waits for the disk
	Changes uint64 // that were made in them
}

const (
	defaultDeferDelay = 10 * time.Millisecond

	epochShift = 40 // 2²⁴ openings, of 2⁴⁰ numbers each
)

// File is an open file. Its methods are safe for concurrent use.
type File struct {
	path    string
	db      *bbolt.DB
	queue   queue
	numbers atomic.Uint64 // how often the file was opened, and a count in the lower epochShift bits
	stats   struct{ groups, changes atomic.Uint64 }

	ended    chan struct{} // closed when the committer is
	closing  sync.Once
	closeErr error
}

// Open opens the file, or makes it with mode 0600. It fails with ErrLocked when it is open elsewhere.
func Open(path string, options Options) (*File, error) {
	if options.DeferDelay <= 0 {
		options.DeferDelay = defaultDeferDelay
	}
	db, epoch, err := openBolt(path, options)
	if err != nil {
		return nil, err
	}
	noteOwner(path)
	f := &File{path: path, db: db, ended: make(chan struct{})}
	f.numbers.Store(epoch << epochShift)
	f.queue.start(options.DeferDelay)
	go f.run()
	return f, nil
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Next returns a number larger than every one it returned before in the life of the file,
// however often that was closed or crashed. It takes no disk.
func (f *File) Next() uint64 { return f.numbers.Add(1) }

// Stats returns what the file did so far.
func (f *File) Stats() Stats {
	return Stats{Groups: f.stats.groups.Load(), Changes: f.stats.changes.Load()}
}

// View calls read with the state of the last commit. Nothing that tx returns may be kept or
// changed, and read must not call the File.
func (f *File) View(read func(tx *Tx) error) error {
	tx, err := f.db.Begin(false)
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }() // ends it; a read has nothing to undo
	return read(&Tx{bucket: tx.Bucket(dataBucket)})
}

// Commit makes a change durable. The change reads and writes tx and keeps nothing of
// it; its error is returned, and then nothing of it is kept. It runs in another
// goroutine, after those committed before it, and must not call the File. When ctx is done
// before the change is begun it is not made, and ctx's error returned; after that the outcome is
// awaited. An error other than ErrFailed says that nothing was made.
func (f *File) Commit(ctx context.Context, change func(tx *Tx) error) error {
	t := &task{change: change, done: make(chan struct{})}
	if err := f.queue.add(t); err != nil {
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
	}
	if t.withdraw() {
		return ctx.Err()
	}
	<-t.done
	return t.err
}

// Defer makes a change durable soon, with the next group or after Options.DeferDelay; Flush and
// Close see to it. It is for what a crash may undo without harm. committed, if not nil, is called when readers
// see it; it must not call the File. Where the disk does not keep up Defer waits like Commit. A
// change that the disk had no room for is called again.
func (f *File) Defer(change func(tx *Tx) error, committed func()) error {
	t := &task{change: change, committed: committed}
	wait, err := f.queue.deferTask(t)
	if err != nil || !wait {
		return err
	}
	t.done = make(chan struct{})
	if err := f.queue.add(t); err != nil {
		return err
	}
	<-t.done
	return t.err
}

// Flush returns when every change before it is durable.
func (f *File) Flush(ctx context.Context) error {
	return f.Commit(ctx, func(*Tx) error { return nil })
}

// Close makes what is pending durable and closes the file. Calls after it fail with ErrClosed.
func (f *File) Close() error {
	f.closing.Do(func() {
		f.queue.close()
		<-f.ended
		_ = os.Remove(ownerPath(f.path))
		err := errors.Join(f.queue.failure(), f.db.Close())
		if err != nil {
			f.closeErr = fmt.Errorf("boltfile: close %s: %w", f.path, err)
		}
	})
	return f.closeErr
}

func closedOr(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return fmt.Errorf("boltfile: %w", err)
}

package bolt

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
	// ErrLocked means that another process, or another File of this process, has the file open.
	ErrLocked = errors.New("another tradewind has this folder open")
	// ErrClosed means that the file was closed.
	ErrClosed = errors.New("bolt: closed")
	// ErrFailed means that the disk failed, and that its content is unknown. OpenFile the file again.
	ErrFailed = errors.New("bolt: the disk failed, the file must be opened again")
	// ErrCorrupt means that the file holds data that this package did not write.
	ErrCorrupt = errors.New("bolt: corrupt file")
)

// Options of a File. The zero value has the defaults for production.
type Options struct {
	// NoSync does not wait for the disk: a crash of the machine (not of the process) may
	// lose commits or the file. For tests.
	NoSync bool
	// DeferDelay is the time for which a deferred change waits for another change to join; 0 means 10 ms.
	DeferDelay time.Duration

	maxBytes int // maximum size of the file, for tests of a full disk
}

// Stats counts the work of a File since it was opened.
type Stats struct {
	Groups  uint64 // commits that waited for the disk
	Changes uint64 // changes in these commits
}

const (
	defaultDeferDelay = 10 * time.Millisecond

	epochShift = 40 // 2²⁴ openings, of 2⁴⁰ numbers each
)

// File is an open bbolt file that several drivers share, written by group commit: changes that arrive while the disk
// is busy are combined in one transaction, which waits for the disk once. The store and the bus of a one-process
// broker share such a file, so that a handler's commit, the relay's publishing and the deliveries of the same moment
// need one write.
//
// One goroutine runs the changes, one after the other. A change's writes reach the transaction only if the change
// succeeds, so a failing change writes nothing and does not affect the others. (bbolt's own Batch would roll all of
// them back and call them again, and makes each caller wait for a timer.) Readers see the last commit and never wait
// for the disk.
//
// All keys are in one bucket, in one order; each driver has its own key prefix ("s" for the store, "b" for the bus).
// While the file is open, PATH.pid holds the process ID. Its methods are safe for concurrent use.
type File struct {
	path    string
	options Options
	opened  sync.RWMutex // held for reading while db is used, and for writing while it is replaced
	db      *bbolt.DB
	copying sync.Mutex // held by WriteTo and by Compact: a copy may take long, and its readers keep db
	queue   queue
	numbers atomic.Uint64 // how often the file was opened, and a count in the lower epochShift bits
	stats   struct{ groups, changes atomic.Uint64 }

	ended    chan struct{} // closed when the committer has ended
	closing  sync.Once
	closeErr error
}

// OpenFile opens the file, or creates it with mode 0600. It fails with ErrLocked if the file is already open.
func OpenFile(path string, options Options) (*File, error) {
	if options.DeferDelay <= 0 {
		options.DeferDelay = defaultDeferDelay
	}
	db, epoch, err := openBolt(path, options)
	if err != nil {
		return nil, err
	}
	writePID(path)
	f := &File{path: path, options: options, db: db, ended: make(chan struct{})}
	f.numbers.Store(epoch << epochShift)
	f.queue.start(options.DeferDelay)
	go f.run()
	return f, nil
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Next returns a number that is larger than every number it returned before in the life of the
// file, also across reopening and crashes. It does not access the disk.
func (f *File) Next() uint64 { return f.numbers.Add(1) }

// Stats returns the counts so far.
func (f *File) Stats() Stats {
	return Stats{Groups: f.stats.groups.Load(), Changes: f.stats.changes.Load()}
}

// View calls read with the state of the last commit. read must not call the File, and must not keep or change
// anything that tx returns.
func (f *File) View(read func(tx *Tx) error) error {
	f.opened.RLock()
	defer f.opened.RUnlock()
	tx, err := f.db.Begin(false)
	if err != nil {
		return closedOr(err)
	}
	defer func() { _ = tx.Rollback() }() // ends it; a read has nothing to undo
	return read(&Tx{bucket: tx.Bucket(dataBucket)})
}

// Commit makes a change durable. The change reads and writes tx and must not keep any part of
// it. If the change returns an error, nothing is written and Commit returns that error. The change
// runs in another goroutine, after those committed before it, and must not call the File. If ctx ends
// before the change has begun, the change is not made and Commit returns ctx's error; once it has
// begun, Commit waits for the outcome. After any error other than ErrFailed, nothing was written.
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

// Defer makes a change durable soon: with the next group, after Options.DeferDelay, or at Flush or
// Close. Use it for changes that a crash may undo without harm. committed, if not nil, is called
// once readers see the change; it must not call the File. If the disk does not keep up, Defer waits
// like Commit. If the disk had no room, the change is called again later.
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

// Close makes pending changes durable and closes the file. Later calls fail with ErrClosed.
func (f *File) Close() error {
	f.closing.Do(func() {
		f.queue.close()
		<-f.ended
		_ = os.Remove(ownerPath(f.path))
		err := errors.Join(f.queue.failure(), f.db.Close())
		if err != nil {
			f.closeErr = fmt.Errorf("bolt: close %s: %w", f.path, err)
		}
	})
	return f.closeErr
}

func closedOr(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return fmt.Errorf("bolt: %w", err)
}

package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"go.etcd.io/bbolt"

	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// copyBytes is the maximum size of one transaction of a copy.
const copyBytes = 8 << 20

// Sizes are the sizes of a file in bytes, before and after it was compacted. They are zero if it was left as it is.
type Sizes struct{ Before, After int64 }

// Compact rewrites the file if more than half of it, and more than least bytes, is unused: bbolt reuses pages but never
// returns them to the disk. If least is negative, it does so in any case. Commits wait while it works, reads wait only
// for its last step. The new file replaces the old one when it is complete and on the disk, so a crash leaves one or
// the other. During WriteTo, and on Windows, it does nothing.
func (f *File) Compact(ctx context.Context, least int64) (sizes Sizes, err error) {
	if runtime.GOOS == "windows" || !f.copying.TryLock() {
		return sizes, nil
	}
	defer f.copying.Unlock()
	t := &task{done: make(chan struct{})}
	t.alone = func() (err error) {
		sizes, err = f.compact(least)
		return err
	}
	if err := f.queue.add(t); err != nil {
		return sizes, err
	}
	select {
	case <-t.done:
		return sizes, t.err
	case <-ctx.Done():
	}
	if t.withdraw() {
		return Sizes{}, ctx.Err()
	}
	<-t.done
	return sizes, t.err
}

func (f *File) compact(least int64) (Sizes, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return Sizes{}, fmt.Errorf("bolt: compact: %w", err)
	}
	free := f.db.Stats()
	before, unused := info.Size(), int64(free.FreePageN+free.PendingPageN)*int64(f.db.Info().PageSize)
	if least >= 0 && (unused <= before/2 || unused <= least) {
		return Sizes{}, nil
	}
	copied := f.path + ".compact"
	if err := f.copyTo(copied); err != nil {
		return Sizes{}, errors.Join(fmt.Errorf("bolt: compact: %w", err), os.Remove(copied))
	}
	if err := f.replaceBy(copied); err != nil {
		return Sizes{}, err
	}
	if info, err = os.Stat(f.path); err != nil {
		return Sizes{}, fmt.Errorf("bolt: compact: %w", err)
	}
	return Sizes{Before: before, After: info.Size()}, nil
}

// copyTo writes the contents to a new file, and waits until it is on the disk.
func (f *File) copyTo(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return err
	}
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true,
		FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = bbolt.Compact(to, f.db, copyBytes)
	if err == nil && !f.options.NoSync {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// replaceBy puts a copy in the place of the file. The lock on the old file is kept until the new one is locked.
func (f *File) replaceBy(copied string) error {
	f.opened.Lock()
	defer f.opened.Unlock()
	moved, err := files.Move(copied, f.path)
	if !moved {
		return fmt.Errorf("bolt: compact: %w", err)
	}
	db, epoch, openErr := openBolt(f.path, f.options)
	if err = errors.Join(err, openErr); err != nil {
		f.queue.fail(err)
		return f.queue.failure()
	}
	old := f.db
	f.db = db
	f.numbers.Store(max(f.numbers.Load(), epoch<<epochShift))
	return old.Close()
}

// WriteTo writes a copy of the file as of the last commit, while it is used. It is a bbolt file. If begins is not nil,
// it is called before with the number of bytes.
func (f *File) WriteTo(w io.Writer, begins func(size int64)) (int64, error) {
	f.copying.Lock()
	defer f.copying.Unlock()
	f.opened.RLock()
	tx, err := f.db.Begin(false)
	f.opened.RUnlock()
	if err != nil {
		return 0, closedOr(err)
	}
	defer func() { _ = tx.Rollback() }() // ends it; a read has nothing to undo
	if begins != nil {
		begins(tx.Size())
	}
	n, err := tx.WriteTo(w)
	if err != nil {
		err = fmt.Errorf("bolt: copy: %w", err)
	}
	return n, err
}

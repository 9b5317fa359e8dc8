package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	// lockWait covers a process that is just ending. After a process is killed, a child that it was starting may
	// hold the file a moment longer.
	lockWait   = 2 * time.Second
	allocBytes = 4 << 20   // step by which bbolt's file grows
	mmapBytes  = 256 << 20 // readers wait while bbolt remaps a larger file
)

// openBolt opens bbolt, locks it, creates the bucket and increments the epoch. bbolt trusts its file: it panics or
// faults if the file is truncated or not bbolt's. openBolt returns an error instead; this process then keeps the
// lock until it ends.
func openBolt(path string, options Options) (db *bbolt.DB, epoch uint64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			db, epoch, err = nil, 0, fmt.Errorf("%w: %s is truncated or damaged: %v", ErrCorrupt, path, r)
		}
	}()
	created, err := restrictMode(path)
	if err != nil {
		return nil, 0, fmt.Errorf("bolt: %w", err)
	}
	mmap := mmapBytes
	if runtime.GOOS == "windows" {
		mmap = 0 // on Windows, the file grows to the size of its map
	}
	var opened os.FileInfo
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockWait,
		NoSync:          options.NoSync,
		NoGrowSync:      options.NoSync,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: mmap,
		MaxSize:         options.maxBytes,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode) //nolint:gosec // the caller's file
			if err == nil && opened == nil {
				opened, err = f.Stat()
			}
			return f, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, 0, fmt.Errorf("bolt: %w: %s%s", ErrLocked, path, describeOwner(path))
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum):
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	case err != nil:
		return nil, 0, fmt.Errorf("bolt: open %s: %w", path, err)
	}
	if is, err := os.Stat(path); err != nil || !os.SameFile(is, opened) {
		// It was replaced by its compacted copy while this process waited for the lock.
		return nil, 0, errors.Join(fmt.Errorf("bolt: %w: %s%s", ErrLocked, path, describeOwner(path)), db.Close())
	}
	db.AllocSize = allocBytes
	if err := checkSize(db, path); err != nil {
		return nil, 0, errors.Join(err, db.Close())
	}
	if epoch, err = createBucket(db); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("bolt: open %s: %w", path, err), db.Close())
	}
	if created && !options.NoSync {
		if err := syncFolder(filepath.Dir(path)); err != nil {
			return nil, 0, errors.Join(fmt.Errorf("bolt: %w", err), db.Close())
		}
	}
	return db, epoch, nil
}

// createBucket creates the bucket and returns the new epoch: how often the file has been opened.
func createBucket(db *bbolt.DB) (epoch uint64, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		data, err := tx.CreateBucketIfNotExists(dataBucket)
		if err != nil {
			return err
		}
		epoch, err = data.NextSequence()
		return err
	})
	return epoch, err
}

// checkSize fails if the file is shorter than bbolt's own record of its size.
func checkSize(db *bbolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("bolt: %w", err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%w: %s has %d bytes instead of %d", ErrCorrupt, path, info.Size(), tx.Size())
		}
		return nil
	})
}

// restrictMode removes other users' permissions from an existing file. It returns true if there is no file yet.
func restrictMode(path string) (created bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return false, os.Chmod(path, 0o600)
	}
	return false, nil
}

// syncFolder makes the names of new files in path durable.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync folders
	}
	dir, err := os.Open(path) //nolint:gosec // the caller's folder
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func ownerPath(path string) string { return path + ".pid" }

// writePID writes this process's ID to the .pid file. It is used only in the text of ErrLocked.
func writePID(path string) {
	_ = os.WriteFile(ownerPath(path), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}

// describeOwner names the process that has the file open, or returns "" if that is unknown.
func describeOwner(path string) string {
	text, err := os.ReadFile(ownerPath(path))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Try takes the lock on f. taken is false, without an error, if another process holds a lock that excludes it.
func Try(f *os.File, mode Mode) (taken bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if mode == Exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	// On Windows other processes cannot read locked bytes. So the locked byte is far behind the end of any file.
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	switch err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, at); {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return false, nil
	default:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

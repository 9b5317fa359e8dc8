package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Try takes the lock on f unless another has one in its way, which is no error.
func Try(f *os.File, mode Mode) (taken bool, err error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if mode == Exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	// What is locked cannot be read by others there, so it is a byte behind every end.
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

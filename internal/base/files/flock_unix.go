//go:build unix

package files

import (
	"errors"
	"os"
	"syscall"
)

// Try takes the lock on f. taken is false, without an error, if another process holds a lock that excludes it.
func Try(f *os.File, mode Mode) (taken bool, err error) {
	how := syscall.LOCK_EX
	if mode == Shared {
		how = syscall.LOCK_SH
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) //nolint:gosec // descriptors are small
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

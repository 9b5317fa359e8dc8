package stage

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve has a file's disk set aside room for all of it, which lets many ranges be written without the file system
// looking for room for each of them, and side by side.
func reserve(f *os.File, size int64) {
	// A file system that cannot finds room as bytes come. One that is full says so then.
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
}

package stage

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates disk space for the whole file, so that many ranges can be written in parallel without the file
// system looking for space for each of them.
func reserve(f *os.File, size int64) {
	// Errors do not matter: without a reservation the file system allocates on write, and reports then if it is full.
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
}

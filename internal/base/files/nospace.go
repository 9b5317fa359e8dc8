package files

import (
	"errors"
	"syscall"
)

// NoSpace reports whether a write failed because the disk is full or its quota is used up.
func NoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Package processor measures processor time.
package processor

import (
	"syscall"
	"time"
)

// Time returns the user and system processor time of this process. Unlike wall time it does not include other
// processes.
func Time() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build !linux

package lineartest

import "time"

var start = time.Now()

// threadTime returns the time since the start, because other systems do not provide the time of a thread.
func threadTime() time.Duration { return time.Since(start) }

//go:build !linux

package lineartest

import "time"

var start = time.Now()

// threadTime is the time since the start: other systems do not tell a thread's.
func threadTime() time.Duration { return time.Since(start) }

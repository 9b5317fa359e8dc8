//go:build unix

package stage

import (
	"fmt"
	"syscall"
)

// roomFor fails with ENOSPC when objects whose sizes are known are more than their disks have free, before any of them
// is read.
func roomFor(list []wanted) error {
	need := map[uint64]int64{} // bytes by device
	at := map[uint64]string{}
	devices := map[string]uint64{}
	for i := range list {
		dir := list[i].root.Name()
		device, known := devices[dir]
		if !known {
			var st syscall.Stat_t
			if err := syscall.Stat(dir, &st); err != nil {
				continue // who writes there says what is wrong
			}
			device = uint64(st.Dev) //nolint:unconvert,gosec // not the same type on all systems
			devices[dir], at[device] = device, dir
		}
		need[device] += max(list[i].size, 0)
	}
	for device, dir := range at {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(dir, &fs); err != nil {
			continue
		}
		free := int64(fs.Bavail) * int64(fs.Bsize) //nolint:unconvert,gosec // not the same type on all systems
		if need[device] > free {
			return fmt.Errorf("%s: %d MiB to come and %d MiB free: %w", dir, need[device]>>20, free>>20, syscall.ENOSPC)
		}
	}
	return nil
}

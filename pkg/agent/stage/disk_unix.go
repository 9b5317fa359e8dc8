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
		if err := Room(dir, need[device]); err != nil {
			return err
		}
	}
	return nil
}

// Room fails with ENOSPC when the disk that a folder lies on has fewer bytes free than need. A disk that does not say
// has room.
func Room(dir string, need int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return nil //nolint:nilerr // who writes there says what is wrong
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) //nolint:unconvert,gosec // not the same type on all systems
	if need > free {
		const tenth = 1 << 20 / 10
		return fmt.Errorf("%s: %.1f MiB to come and %.1f MiB free: %w", dir, float64(need/tenth)/10,
			float64(free/tenth)/10, syscall.ENOSPC)
	}
	return nil
}

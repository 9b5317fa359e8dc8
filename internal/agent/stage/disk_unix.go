//go:build unix

package stage

import (
	"fmt"
	"syscall"

	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// roomFor returns ENOSPC if objects with known sizes need more than the free space of their disks, before any of them
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
				continue // the write will report the error
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

// Room returns ENOSPC if the disk of a folder has less than need bytes free. If the free space is unknown, it returns
// nil.
func Room(dir string, need int64) error {
	free, _, err := files.Space(dir)
	if err != nil {
		return nil //nolint:nilerr // the write will report the error
	}
	if need > free {
		const tenth = 1 << 20 / 10
		return fmt.Errorf("%s: needs %.1f MiB but only %.1f MiB are free: %w", dir, float64(need/tenth)/10,
			float64(free/tenth)/10, syscall.ENOSPC)
	}
	return nil
}

//go:build unix

package agent

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the owner of a file and the number of its links.
func ownerOf(info fs.FileInfo) (uid int, links uint64) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), uint64(s.Nlink) //nolint:unconvert // the type depends on the system
	}
	return -1, 1
}

//go:build unix

package files

import "golang.org/x/sys/unix"

// Space returns the free space for this user and the size of the disk of a folder, in bytes.
func Space(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	block := int64(fs.Bsize)                                       //nolint:unconvert // not the same type on all systems
	return int64(fs.Bavail) * block, int64(fs.Blocks) * block, nil //nolint:gosec // fits
}

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is os.RemoveAll, also of folders that their owner may not write to, as Go's module cache has them.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil { // before it is read; no link is followed
			_ = os.Chmod(p, 0o700) //nolint:gosec // it is removed
		}
		return nil
	})
	return os.RemoveAll(dir)
}

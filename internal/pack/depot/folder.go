package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/tradewind-broker/tradewind/internal/pack"
)

// Folder is the Shelf of a local folder, with packs below pack.Prefix.
type Folder struct{ Root *os.Root }

func name(d pack.Digest) string { return pack.Prefix + string(d) }

// Get implements pack.Source.
func (f Folder) Get(_ context.Context, d pack.Digest) (io.ReadCloser, error) {
	if d.Sum() == nil {
		return nil, fs.ErrNotExist
	}
	return f.Root.Open(name(d))
}

// Stat implements Shelf.
func (f Folder) Stat(_ context.Context, d pack.Digest) (int64, time.Time, error) {
	info, err := f.Root.Stat(name(d))
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.Size(), info.ModTime(), nil
}

// Touch implements Shelf.
func (f Folder) Touch(_ context.Context, d pack.Digest) error {
	return f.Root.Chtimes(name(d), time.Time{}, time.Now())
}

// Sweep removes files written more than Keep before now. It ignores files that disappear meanwhile.
func (f Folder) Sweep(now time.Time) error {
	dir := path.Clean(pack.Prefix)
	found, err := fs.ReadDir(f.Root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, d := range found {
		if info, err := d.Info(); err == nil && now.Sub(info.ModTime()) > Keep {
			if err := f.Root.Remove(path.Join(dir, d.Name())); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

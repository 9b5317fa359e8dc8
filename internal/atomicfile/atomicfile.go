// Package atomicfile replaces files in one step: a reader, and whoever starts after a crash or a power cut, finds all
// of the new content or all of the old.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what a test watches.
type disk struct {
	sync   func(*os.File) error
	rename func(from, to string) error
}

// Write makes path hold body, with a mode, on disk when it returns.
func Write(path string, mode fs.FileMode, body []byte) error {
	return Fill(path, mode, func(w io.Writer) error { _, err := w.Write(body); return err })
}

// Fill makes path hold what fill writes, with a mode, on disk when it returns. Where fill fails, path stays as it was.
func Fill(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	return disk{(*os.File).Sync, os.Rename}.fill(path, mode, fill)
}

// FillIn is Fill below a root that nothing leads out of: it fills temp and moves it to name, whose folder it makes. The
// caller chooses temp, so that it knows what a crash leaves behind.
func FillIn(root *os.Root, temp, name string, mode fs.FileMode, fill func(io.Writer) error) error {
	part, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = errors.Join(fill(part), part.Sync(), part.Close())
	if err == nil {
		err = root.MkdirAll(filepath.Dir(name), 0o755)
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	folder, err := root.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close()) // in which the name is
}

func (d disk) fill(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // only synced
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	err = fill(part)
	if err == nil {
		err = errors.Join(part.Chmod(mode), d.sync(part))
	}
	if err = errors.Join(err, part.Close()); err == nil {
		err = d.rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return d.sync(folder) // in which the name is
}

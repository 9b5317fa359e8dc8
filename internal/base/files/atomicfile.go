// Package files replaces files atomically: readers, also after a crash or a power cut, see either all of the new
// content or all of the old.
package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk contains the system calls that a test replaces.
type disk struct {
	sync   func(*os.File) error
	rename func(from, to string) error
}

// Write sets the content and mode of a file. When it returns, they are on disk.
func Write(path string, mode fs.FileMode, body []byte) error {
	return Fill(path, mode, func(w io.Writer) error { _, err := w.Write(body); return err })
}

// Fill sets the content of a file to the output of fill, and sets its mode. When Fill returns, both are on disk. If
// fill fails, the file does not change.
func Fill(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	return disk{(*os.File).Sync, os.Rename}.fill(path, mode, fill)
}

// FillIn is Fill within a root that it cannot leave. It fills the file temp, and renames it to name after creating
// the folder of name. The caller chooses temp, so that it knows the name of the file that a crash may leave.
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
	return errors.Join(folder.Sync(), folder.Close()) // the folder contains the name
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
	return d.sync(folder) // the folder contains the name
}

// Move gives a complete file or folder another name in the same folder. An existing file or empty folder of that name
// is replaced. moved reports whether it has the new name. With an error, that may not be on the disk yet.
func Move(from, to string) (moved bool, err error) {
	if err := os.Rename(from, to); err != nil {
		return false, err
	}
	folder, err := os.Open(filepath.Dir(to))
	if err != nil {
		return true, err
	}
	return true, errors.Join(folder.Sync(), folder.Close()) // the folder contains the name
}

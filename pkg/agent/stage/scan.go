package stage

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Scan is how a directory is listed.
type Scan struct {
	// Ignore leaves out a path, and all below it.
	Ignore func(path string) bool
	// Note, when set, is told of what is left out: sockets and other things without content, and, instead of the
	// failure that they otherwise are, links that leave the directory.
	Note func(msg string)
}

// Empty says that nothing of a directory is kept.
func (s Scan) Empty(ctx context.Context, dir string) (bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close() //nolint:errcheck // only read
	entries, err := s.list(ctx, root)
	return len(entries) == 0, err
}

// entry is a file with what tells whether it was changed.
type entry struct {
	File
	modified time.Time
}

// list returns what lies in root, in the order of its paths.
func (s Scan) list(ctx context.Context, root *os.Root) ([]entry, error) {
	var out []entry
	fsys := root.FS()
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || p == "." {
			return err
		}
		if s.Ignore != nil && s.Ignore(p) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		e, ok, err := s.entry(root, fsys, p, d)
		if ok {
			out = append(out, e)
		}
		if len(out) > MaxFiles {
			return fmt.Errorf("%w: more than %d", ErrTooMany, MaxFiles)
		}
		return err
	})
	return out, err
}

// entry describes one thing that was found; ok is false for what is not kept.
func (s Scan) entry(root *os.Root, fsys fs.FS, p string, d fs.DirEntry) (e entry, ok bool, err error) {
	info, err := d.Info()
	if err != nil {
		return entry{}, false, err
	}
	e = entry{File: File{Path: p, Mode: info.Mode().Perm()}, modified: info.ModTime()}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Size = info.Size()
	case mode.IsDir():
		below, err := fs.ReadDir(fsys, p)
		if err != nil || len(below) > 0 { // a directory with files needs no mention
			return entry{}, false, err
		}
		e.Dir = true
	case mode&fs.ModeSymlink != 0:
		if e.Link, err = root.Readlink(p); err != nil {
			return entry{}, false, err
		}
		e.Mode = 0
		if !linkInside(p, e.Link) {
			return entry{}, false, s.leaves(p, e.Link)
		}
	default:
		s.note("left out %s: not a file", p)
		return entry{}, false, nil
	}
	return e, true, nil
}

func (s Scan) leaves(p, target string) error {
	if s.Note == nil {
		return fmt.Errorf("link %q to %q %w", p, target, ErrLeaves)
	}
	s.note("left out %s: a link that leaves the directory", p)
	return nil
}

func (s Scan) note(format string, args ...any) {
	if s.Note != nil {
		s.Note(fmt.Sprintf(format, args...))
	}
}

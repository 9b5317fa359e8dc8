package stage

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Scan configures how a directory is listed.
type Scan struct {
	// Ignore leaves out a path, and everything below it.
	Ignore func(path string) bool
	// Note, if set, is called for everything that is left out: sockets and other entries without content, links that
	// leave the directory, and names that no store can have. Without Note, such links and names are errors.
	Note func(msg string)

	// local means that the files go to a folder of this machine, which accepts any name.
	local bool
}

// Empty reports whether the scan of a directory finds nothing.
func (s Scan) Empty(ctx context.Context, dir string) (bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close() //nolint:errcheck // only read
	entries, err := s.list(ctx, root)
	return len(entries) == 0, err
}

// entry is a file with its modification time.
type entry struct {
	File
	modified time.Time
}

// list returns the entries below root, sorted by path.
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
		if !s.local && !utf8.ValidString(p) { // JSON would change the name, perhaps to that of another file
			err := s.leaveOut(strconv.Quote(p), "its name is not UTF-8", fmt.Errorf("the name %q %w", p, ErrName))
			if err == nil && d.IsDir() {
				return fs.SkipDir
			}
			return err
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

// entry describes one directory entry; ok is false if it is left out.
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
		if err != nil || len(below) > 0 { // only empty directories need an entry
			return entry{}, false, err
		}
		e.Dir = true
	case mode&fs.ModeSymlink != 0:
		if e.Link, err = root.Readlink(p); err != nil {
			return entry{}, false, err
		}
		e.Mode, e.Link = 0, relative(root.Name(), p, e.Link)
		switch {
		case !linkInside(p, e.Link):
			return entry{}, false, s.leaveOut(p, "a link that leaves the directory",
				fmt.Errorf("link %q to %q %w", p, e.Link, ErrLeaves))
		case !s.local && !utf8.ValidString(e.Link):
			return entry{}, false, s.leaveOut(p, "a link to a name that is not UTF-8",
				fmt.Errorf("link %q: the name %q %w", p, e.Link, ErrName))
		}
	default:
		s.note("left out %s: not a file", p)
		return entry{}, false, nil
	}
	return e, true, nil
}

// relative returns the target of a link at p. It makes an absolute path into the directory relative, because the
// directory will have another path elsewhere.
func relative(dir, p, target string) string {
	if !filepath.IsAbs(target) {
		return target
	}
	real, _ := filepath.EvalSymlinks(dir) // a program may use either path
	for _, from := range []string{dir, real} {
		if rel, err := filepath.Rel(from, target); err == nil && filepath.IsLocal(rel) {
			return path.Clean(strings.Repeat("../", strings.Count(p, "/")) + filepath.ToSlash(rel))
		}
	}
	return target
}

// leaveOut returns err for an entry that cannot be represented, or nil if Note is set and the entry is left out.
func (s Scan) leaveOut(p, why string, err error) error {
	if s.Note == nil {
		return err
	}
	s.note("left out %s: %s", p, why)
	return nil
}

func (s Scan) note(format string, args ...any) {
	if s.Note != nil {
		s.Note(fmt.Sprintf(format, args...))
	}
}

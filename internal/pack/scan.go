package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrUnpackable means that a folder contains a file that cannot be packed. The message names the file and the remedy.
var ErrUnpackable = errors.New("cannot be packed")

// Default limits of a pack: code rarely has more.
const (
	DefaultBytes = 2 << 30
	DefaultFiles = 200_000
)

// Options configure how something is packed. The zero value is useful.
type Options struct {
	MaxBytes int64 // total size of all files; 0 is DefaultBytes
	MaxFiles int   // number of files, folders and links; 0 is DefaultFiles
	// Committed includes files that git ignores: a clone contains only committed files.
	Committed bool
	// Note is called for entries that are left out because they have no content: sockets, devices, pipes.
	Note func(string)
	// Read is called for each piece that was read, with its size and the total size in bytes.
	Read func(n, of int64)
}

// Tree is a folder or a file that is being packed. Close it after use.
type Tree struct {
	root   *os.Root
	dir    string // absolute path of the folder, or of the folder that contains the file
	name   string // of the folder or file
	single bool
	opts   Options
	list   List
	files  []file // of the entries with content
	body   []byte // the list, encoded
	digest Digest // of body
}

// file is the content of an entry: its position in the stream, and its modification time to detect changes.
type file struct {
	path     string // below the root
	from     int64
	size     int64
	modified int64 // nanoseconds
}

// Scan lists a folder or a file without reading it. It returns fs.ErrNotExist, ErrUnfit, or a *Large if it exceeds
// the limits.
func Scan(ctx context.Context, name string, o Options) (*Tree, error) {
	// If name is a link, pack its target.
	abs, err := filepath.Abs(name)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, err
	}
	t := &Tree{opts: o, dir: abs, single: !info.IsDir(), name: filepath.Base(filepath.Clean(name)), list: List{
		Version: listVersion, Entries: []Entry{}, Pieces: []Piece{},
	}}
	if t.name == "." || t.name == ".." || t.name == string(filepath.Separator) {
		t.name = strings.TrimPrefix(filepath.Base(abs), string(filepath.Separator))
	}
	if t.single {
		t.dir = filepath.Dir(abs)
	}
	if t.root, err = os.OpenRoot(t.dir); err != nil {
		return nil, err
	}
	if err = t.scan(ctx, info, filepath.Base(abs)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes the folder.
func (t *Tree) Close() error { return t.root.Close() }

// Single reports whether it is a single file rather than a folder.
func (t *Tree) Single() bool { return t.single }

// Bytes returns the total size of all files.
func (t *Tree) Bytes() int64 { return t.list.Bytes() }

// Files returns the number of files and links.
func (t *Tree) Files() int {
	n := 0
	for i := range t.list.Entries {
		if !t.list.Entries[i].Dir {
			n++
		}
	}
	return n
}

// At returns a file or link at a path or below it. some is false if there is none; an empty directory does not count.
func (t *Tree) At(place string) (name string, some bool) {
	for i := range t.list.Entries {
		e := &t.list.Entries[i]
		if e.Path == place && !e.Dir || strings.HasPrefix(e.Path, place+"/") {
			return e.Path, true
		}
	}
	return "", false
}

func (t *Tree) scan(ctx context.Context, info fs.FileInfo, base string) error {
	if t.name != "" {
		if err := t.checkName(t.name); err != nil {
			return err
		}
	} else {
		t.name = "root"
	}
	at := map[string]file{}
	if t.single {
		if !info.Mode().IsRegular() {
			return fmt.Errorf(
				"%s %w: neither a file nor a folder (%s)",
				t.dir+"/"+base,
				ErrUnpackable,
				info.Mode().Type(),
			)
		}
		t.add(Entry{Path: itself, Mode: info.Mode().Perm(), Size: info.Size()}, base, info, at)
	} else {
		ig, err := rulesOf(t.dir, t.opts.Committed)
		if err != nil {
			return err
		}
		if err := t.folder(ctx, itself, ig, at); err != nil {
			return err
		}
	}
	slices.SortFunc(t.list.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	var from int64
	for i := range t.list.Entries {
		e := &t.list.Entries[i]
		if f, ok := at[e.Path]; ok && e.Size > 0 {
			f.from = from
			t.files = append(t.files, f)
			from += e.Size
		}
	}
	return t.checkSize()
}

func (t *Tree) add(e Entry, below string, info fs.FileInfo, at map[string]file) {
	t.list.Entries = append(t.list.Entries, e)
	if e.file() {
		at[e.Path] = file{path: below, size: e.Size, modified: info.ModTime().UnixNano()}
	}
}

// folder adds the content of a folder below the root.
func (t *Tree) folder(ctx context.Context, dir string, ig rules, at map[string]file) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	found, err := fs.ReadDir(t.root.FS(), dir)
	if err != nil {
		return t.readError(dir, err)
	}
	for _, d := range found {
		p := path.Join(dir, d.Name())
		full := filepath.Join(t.dir, filepath.FromSlash(p))
		if ig.ignored(full, d.IsDir()) {
			continue
		}
		if err := t.checkName(p); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return t.readError(p, err)
		}
		e, keep, err := t.entry(p, info)
		if err != nil {
			return err
		}
		if !keep {
			continue
		}
		if t.add(e, p, info, at); len(t.list.Entries) > MaxFiles {
			return t.large()
		}
		if !e.Dir {
			continue
		}
		deeper, err := ig.in(full)
		if err != nil {
			return err
		}
		if err := t.folder(ctx, p, deeper, at); err != nil {
			return err
		}
	}
	return nil
}

// readError returns the error for something that cannot be read: it was removed meanwhile, or the user may not read it.
func (t *Tree) readError(p string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Changed{Path: filepath.Join(t.dir, filepath.FromSlash(p))}
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s %w: you may not read it (%w); change its permissions, or leave it out in %s",
			filepath.Join(t.dir, filepath.FromSlash(p)), ErrUnpackable, fs.ErrPermission, ownIgnore)
	}
	return err
}

func (t *Tree) checkName(p string) error {
	if !utf8.ValidString(p) {
		return fmt.Errorf("%s: %q %w: its name is not UTF-8; rename it, or leave it out in %s", t.dir, p, ErrUnpackable,
			ownIgnore)
	}
	return nil
}

// entry describes a directory entry; keep is false if it has no content.
func (t *Tree) entry(p string, info fs.FileInfo) (e Entry, keep bool, err error) {
	e = Entry{Path: p, Mode: info.Mode().Perm()}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Size = info.Size()
	case mode.IsDir():
		e.Dir = true
	case mode&fs.ModeSymlink != 0:
		e.Mode = 0
		e.Link, err = t.link(p)
	default:
		if t.opts.Note != nil {
			t.opts.Note(fmt.Sprintf("left out %s: not a file (%s)", filepath.Join(t.dir, p), mode.Type()))
		}
		return e, false, nil
	}
	return e, true, err
}

// link returns the target of a link. It makes an absolute path into the folder relative, because the folder will have
// another path elsewhere.
func (t *Tree) link(p string) (string, error) {
	target, err := t.root.Readlink(p)
	if err != nil {
		return "", t.readError(p, err)
	}
	if filepath.IsAbs(target) {
		if rel, err := filepath.Rel(t.dir, target); err == nil && filepath.IsLocal(rel) {
			from := strings.Repeat("../", strings.Count(p, "/"))
			target = path.Clean(from + filepath.ToSlash(rel))
		}
	}
	if target = filepath.ToSlash(target); !linkInside(p, target) {
		return "", fmt.Errorf("%s %w: it is a link out of %s, to %s; replace it by its target, name the target in "+
			"inputs, or leave it out in %s", filepath.Join(t.dir, p), ErrUnpackable, t.dir, target, ownIgnore)
	}
	return target, nil
}

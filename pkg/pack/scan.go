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

// ErrUnfit says of something in a folder that it cannot be packed. The text says what it is, and what to do.
var ErrUnfit = errors.New("cannot be packed")

// Limits of a pack where none are given: what is meant to be code rarely has more.
const (
	DefaultBytes = 2 << 30
	DefaultFiles = 200_000
)

// Options say how something is packed. The zero value is useful.
type Options struct {
	MaxBytes int64 // of all files together; 0 is DefaultBytes
	MaxFiles int   // files, folders and links; 0 is DefaultFiles
	// Committed packs what git ignores as well: what was cloned has nothing but what was committed.
	Committed bool
	// Note is told of what is left out since it has no content: sockets, devices, pipes.
	Note func(string)
	// Read is told of each piece that was read, and how much there is in all, bytes.
	Read func(n, of int64)
}

// Tree is a folder or a file as it is to be packed. Close it after use.
type Tree struct {
	root   *os.Root
	dir    string // absolute: the folder, or the one that the file lies in
	name   string // of the folder or file
	single bool
	opts   Options
	list   List
	files  []file // those of the entries that have content
	body   []byte // the list, encoded
	digest Digest // of body
}

// file is the content of an entry: where it lies in the stream, and what tells whether it was changed.
type file struct {
	path     string // below the root
	from     int64
	size     int64
	modified int64 // nanoseconds
}

// Scan lists a folder or a file without reading it. It fails with fs.ErrNotExist, with ErrUnfit, or with a *Large
// beyond the limits.
func Scan(ctx context.Context, name string, o Options) (*Tree, error) {
	// What is called by a link is what the link leads to.
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

// Close lets go of the folder.
func (t *Tree) Close() error { return t.root.Close() }

// Single says whether it is one file rather than a folder.
func (t *Tree) Single() bool { return t.single }

// Bytes is the size of all files together.
func (t *Tree) Bytes() int64 { return t.list.Bytes() }

// Files is how many files and links there are.
func (t *Tree) Files() int {
	n := 0
	for i := range t.list.Entries {
		if !t.list.Entries[i].Dir {
			n++
		}
	}
	return n
}

// At names something of a folder that lies at a path, or below it: a file, a link, or what is in a directory. An empty
// directory is nothing.
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
		if err := t.fitName(t.name); err != nil {
			return err
		}
	} else {
		t.name = "root"
	}
	at := map[string]file{}
	if t.single {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s %w: neither a file nor a folder (%s)", t.dir+"/"+base, ErrUnfit, info.Mode().Type())
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

// folder adds what lies in a folder below the root.
func (t *Tree) folder(ctx context.Context, dir string, ig rules, at map[string]file) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	found, err := fs.ReadDir(t.root.FS(), dir)
	if err != nil {
		return t.gone(dir, err)
	}
	for _, d := range found {
		p := path.Join(dir, d.Name())
		full := filepath.Join(t.dir, filepath.FromSlash(p))
		if ig.leave(full, d.IsDir()) {
			continue
		}
		if err := t.fitName(p); err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return t.gone(p, err)
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

// gone is the error of what cannot be read: it was there a moment ago, or is not for this user.
func (t *Tree) gone(p string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Changed{Path: filepath.Join(t.dir, filepath.FromSlash(p))}
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s %w: you may not read it (%w); change its rights, or leave it out in %s",
			filepath.Join(t.dir, filepath.FromSlash(p)), ErrUnfit, fs.ErrPermission, ownIgnore)
	}
	return err
}

func (t *Tree) fitName(p string) error {
	if !utf8.ValidString(p) {
		return fmt.Errorf("%s: %q %w: its name is not UTF-8; rename it, or leave it out in %s", t.dir, p, ErrUnfit,
			ownIgnore)
	}
	return nil
}

// entry describes something that was found; keep is false for what has no content.
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

// link is where a link points to. An absolute path into the folder becomes a relative one: elsewhere the folder lies
// elsewhere.
func (t *Tree) link(p string) (string, error) {
	target, err := t.root.Readlink(p)
	if err != nil {
		return "", t.gone(p, err)
	}
	if filepath.IsAbs(target) {
		if rel, err := filepath.Rel(t.dir, target); err == nil && filepath.IsLocal(rel) {
			from := strings.Repeat("../", strings.Count(p, "/"))
			target = path.Clean(from + filepath.ToSlash(rel))
		}
	}
	if target = filepath.ToSlash(target); !linkInside(p, target) {
		return "", fmt.Errorf("%s %w: it is a link out of %s, to %s; replace it by what it points to, name that in "+
			"inputs, or leave it out in %s", filepath.Join(t.dir, p), ErrUnfit, t.dir, target, ownIgnore)
	}
	return target, nil
}

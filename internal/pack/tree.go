package pack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"time"
)

// Changed is the error for a file that changes while it is packed.
type Changed struct{ Path string }

// Error returns a message with the file's name.
func (c *Changed) Error() string {
	return c.Path + " changes while it is packed; wait until the program that writes it has finished, or leave " +
		"it out in " +
		ownIgnore
}

// tries is the number of times that Pack tries to pack a folder that changes, and stillFor the pause before each
// retry.
const (
	tries      = 3
	retryPause = 300 * time.Millisecond
)

// Pack lists a folder or a file and reads it. If something changes meanwhile, it tries again several times before it
// returns a *Changed. Otherwise it returns the errors of Scan.
func Pack(ctx context.Context, name string, o Options) (*Tree, error) {
	for try := 1; ; try++ {
		t, err := Scan(ctx, name, o)
		if err == nil {
			if err = t.read(ctx); err == nil {
				return t, nil
			}
			err = errors.Join(err, t.Close())
		}
		var changed *Changed
		if !errors.As(err, &changed) || try == tries {
			return nil, err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read cuts the contents of all files into pieces, and encodes the list.
func (t *Tree) read(ctx context.Context) error {
	in := &stream{tree: t, ctx: ctx}
	defer in.close()
	window := bufio.NewReaderSize(in, maxPiece)
	of := t.list.Bytes()
	for {
		data, err := window.Peek(maxPiece)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(data) == 0 {
			break
		}
		n := cut(data)
		t.list.Pieces = append(t.list.Pieces, Piece{Digest: DigestOf(data[:n]), Size: int64(n)})
		if _, err := window.Discard(n); err != nil {
			return err
		}
		if t.opts.Read != nil {
			t.opts.Read(int64(n), of)
		}
	}
	var err error
	if t.body, err = t.list.encode(); err == nil && len(t.body) > MaxListBytes {
		err = t.large()
	}
	t.digest = DigestOf(t.body)
	return err
}

// stream reads the contents of a tree's files, concatenated. It returns a *Changed if a file differs from the list.
type stream struct {
	tree *Tree
	ctx  context.Context //nolint:containedctx // of the reading call
	next int
	open fs.File
	left int64
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil { // reading a file may take minutes
		return 0, err
	}
	for s.left == 0 {
		if err := s.finish(); err != nil {
			return 0, err
		}
		if s.next == len(s.tree.files) {
			return 0, io.EOF
		}
		f := &s.tree.files[s.next]
		var err error
		if s.open, err = s.tree.root.Open(f.path); err != nil {
			return 0, s.tree.readError(f.path, err)
		}
		s.next, s.left = s.next+1, f.size
	}
	n, err := s.open.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if n == 0 {
			err = s.tree.changed(&s.tree.files[s.next-1])
		}
	}
	return n, err
}

// finish checks that the file that was just read has not changed meanwhile.
func (s *stream) finish() error {
	if s.open == nil {
		return nil
	}
	f := &s.tree.files[s.next-1]
	still := f.unchanged(s.open)
	s.close()
	if !still {
		return s.tree.changed(f)
	}
	return nil
}

func (s *stream) close() {
	if s.open != nil {
		_ = s.open.Close() // only read
		s.open = nil
	}
}

// unchanged reports whether an open file is the same as when it was listed.
func (f *file) unchanged(open fs.File) bool {
	info, err := open.Stat()
	return err == nil && info.Size() == f.size && info.ModTime().UnixNano() == f.modified
}

func (t *Tree) changed(f *file) error {
	return &Changed{Path: filepath.Join(t.dir, filepath.FromSlash(f.path))}
}

// URI returns the URI with which jobs refer to the pack. The tree must come from Pack.
func (t *Tree) URI() string { return URI{Digest: t.digest, Name: t.name}.String() }

// Pieces returns the pieces of a tree from Pack without duplicates, and its list as the last one.
func (t *Tree) Pieces() []Piece {
	seen := make(map[Digest]bool, len(t.list.Pieces))
	var out []Piece
	for _, p := range t.list.Pieces {
		if !seen[p.Digest] {
			seen[p.Digest] = true
			out = append(out, p)
		}
	}
	return append(out, Piece{Digest: t.digest, Size: int64(len(t.body))})
}

// Content returns the content of a piece of a tree from Pack, or of its list. It returns a *Changed if the folder has
// changed.
func (t *Tree) Content(p Piece) ([]byte, error) {
	if p.Digest == t.digest {
		return t.body, nil
	}
	var from int64
	for _, one := range t.list.Pieces {
		if one == p {
			return t.contentAt(from, p)
		}
		from += one.Size
	}
	return nil, fmt.Errorf("no piece %s in this pack", p.Digest)
}

// contentAt reads a piece that begins at an offset of the stream.
func (t *Tree) contentAt(from int64, p Piece) ([]byte, error) {
	body := make([]byte, p.Size)
	first := sort.Search(len(t.files), func(i int) bool { return t.files[i].from+t.files[i].size > from })
	for rest := body; len(rest) > 0; first++ {
		f := &t.files[first]
		n := min(int64(len(rest)), f.from+f.size-from)
		if err := t.readAt(f, rest[:n], from-f.from); err != nil {
			return nil, err
		}
		rest, from = rest[n:], from+n
	}
	if DigestOf(body) != p.Digest {
		return nil, t.changed(&t.files[first-1])
	}
	return body, nil
}

func (t *Tree) readAt(f *file, p []byte, at int64) error {
	open, err := t.root.Open(f.path)
	if err != nil {
		return t.readError(f.path, err)
	}
	defer open.Close() //nolint:errcheck // only read
	if !f.unchanged(open) {
		return t.changed(f)
	}
	if _, err := open.ReadAt(p, at); errors.Is(err, io.EOF) {
		return t.changed(f)
	} else if err != nil {
		return err
	}
	return nil
}

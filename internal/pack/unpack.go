package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"
)

// Source returns the content for a digest: pieces and lists.
type Source interface {
	// Get opens the content of a digest. The caller checks it. Get returns fs.ErrNotExist if the content is missing.
	// Several goroutines call it.
	Get(ctx context.Context, d Digest) (io.ReadCloser, error)
}

// ReadList reads the list of a pack. It returns ErrCorrupt if the content does not match the digest.
func ReadList(ctx context.Context, src Source, d Digest) (*List, error) {
	body, err := get(ctx, src, d, MaxListBytes)
	if err != nil {
		return nil, err
	}
	l, err := ParseList(body)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d, err)
	}
	return l, nil
}

// getTries is the maximum number of tries for temporary errors.
const getTries = 4

// get reads the content of a digest, at most most bytes, and checks it.
func get(ctx context.Context, src Source, d Digest, most int64) ([]byte, error) {
	return backoff.Retry(ctx, func() ([]byte, error) {
		body, err := getOnce(ctx, src, d, most)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrCorrupt) {
			err = backoff.Permanent(err)
		}
		return body, err
	}, backoff.WithMaxTries(getTries))
}

func getOnce(ctx context.Context, src Source, d Digest, most int64) ([]byte, error) {
	r, err := src.Get(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d, err)
	}
	defer r.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d, err)
	}
	if sum := sha256.Sum256(body); int64(len(body)) > most || !bytes.Equal(sum[:], d.Sum()) {
		return nil, fmt.Errorf("%s: %w: the content does not match the digest", d, ErrCorrupt)
	}
	return body, nil
}

// parallel is the number of concurrent pieces, each in memory.
const parallel = 8

// Unpack writes the content of a list to a path below root. The path is a folder, which may exist and whose other
// files stay, or a file. Existing files with the same names are replaced. Unpack changes nothing outside that path,
// whatever links exist there, and writes only checked bytes.
func Unpack(ctx context.Context, src Source, l *List, root *os.Root, to string) error {
	u := unpacking{list: l, root: root, to: path.Clean(to), from: make([]int64, len(l.Entries)+1)}
	for i := range l.Entries {
		u.from[i+1] = u.from[i] + l.Entries[i].Size
	}
	if err := u.prepare(); err != nil {
		return err
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	var from int64
	for _, p := range l.Pieces {
		if each.Err() != nil {
			break
		}
		at := from
		g.Go(func() error {
			body, err := get(each, src, p.Digest, p.Size)
			if err == nil && int64(len(body)) != p.Size {
				err = fmt.Errorf("%s: %w: %d bytes, not %d", p.Digest, ErrCorrupt, len(body), p.Size)
			}
			if err != nil {
				return err
			}
			return u.write(at, body)
		})
		from += p.Size
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return u.finish()
}

type unpacking struct {
	list *List
	root *os.Root
	to   string
	from []int64 // offset in the stream of each entry's content; the last is the end
}

func (u *unpacking) path(e *Entry) string { return path.Join(u.to, e.Path) }

// prepare creates writable folders and empty files, and removes existing files that are in the way. The first piece
// of a file creates it.
func (u *unpacking) prepare() error {
	top := u.to
	if u.list.Single() {
		top = path.Dir(top)
	}
	if err := u.root.MkdirAll(top, 0o755); err != nil {
		return err
	}
	for i := range u.list.Entries {
		e := &u.list.Entries[i]
		if err := u.clear(e); err != nil {
			return err
		}
		switch p := u.path(e); {
		case e.Dir:
			if err := u.root.Mkdir(p, e.Mode|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := u.root.Chmod(p, e.Mode|0o700); err != nil {
				return err
			}
		case e.file() && e.Size == 0:
			if err := u.writeAt(e, nil, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes a file in the place of an entry. An existing folder stays if the entry is a folder. Otherwise clear
// returns an error, because the folder may contain files that the user wants to keep.
func (u *unpacking) clear(e *Entry) error {
	p := u.path(e)
	info, err := u.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir() && e.Dir:
		return nil
	case info.IsDir():
		return fmt.Errorf("%s: a folder is in the way of a file", p)
	}
	return u.root.Remove(p)
}

// write writes a piece that begins at an offset of the stream to its files.
func (u *unpacking) write(from int64, body []byte) error {
	i := sort.Search(len(u.list.Entries), func(i int) bool { return u.from[i+1] > from })
	for ; len(body) > 0; i++ {
		n := min(int64(len(body)), u.from[i+1]-from)
		if n == 0 {
			continue
		}
		if err := u.writeAt(&u.list.Entries[i], body[:n], from-u.from[i]); err != nil {
			return err
		}
		body, from = body[n:], from+n
	}
	return nil
}

// writeAt writes a part of a file, and creates the file if this is the first part.
func (u *unpacking) writeAt(e *Entry, body []byte, at int64) error {
	f, err := u.root.OpenFile(u.path(e), os.O_WRONLY|os.O_CREATE, e.Mode|0o200)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(body, at)
	return errors.Join(err, f.Close())
}

// finish creates the links and sets the final permissions, the deepest folders first. Links come last so that no file
// is written through a link.
func (u *unpacking) finish() error {
	for i := len(u.list.Entries) - 1; i >= 0; i-- {
		e := &u.list.Entries[i]
		var err error
		if e.Link != "" {
			err = u.root.Symlink(e.Link, u.path(e))
		} else {
			err = u.root.Chmod(u.path(e), e.Mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

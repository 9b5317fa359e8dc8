package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/tradewind-broker/tradewind/pkg/agent/bucket"
)

// Fetch copies what uri names to dst below dir: one object or file, or all below a prefix or directory. Like cp, it
// puts a single file into dst when that ends in "/" or is a directory, and otherwise under that name. dst "." is dir
// itself. It fails with ErrNotFound when nothing is there, and with ErrLeaves for a dst or a key that would leave dir.
// note is told of what was left out of a local directory.
func (t Transfer) Fetch(ctx context.Context, open bucket.Openers, uri, dir, dst string, note func(string)) error {
	into := strings.HasSuffix(dst, "/")
	dst = path.Clean(dst)
	if dst != "." {
		if err := inside(dst); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	if info, err := root.Stat(dst); err == nil && info.IsDir() {
		into = true
	}
	to := place{root: root, path: dst, into: into}
	if p, ok := bucket.LocalPath(uri); ok {
		err = t.fetchLocal(ctx, p, to, note)
	} else {
		err = t.fetchBucket(ctx, open, uri, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", uri, err)
	}
	return nil
}

// place is where a fetched file or directory goes.
type place struct {
	root *os.Root
	path string
	into bool // a single file keeps its name, below path
}

// file is where a single file of that name goes.
func (p place) file(name string) (string, error) {
	if !p.into {
		return p.path, nil
	}
	to := path.Join(p.path, name)
	return to, inside(to)
}

func (t Transfer) fetchLocal(ctx context.Context, src string, to place, note func(string)) error {
	info, err := os.Stat(src)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return t.copyDir(ctx, src, to, note)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("neither a file nor a directory: %s", info.Mode())
	}
	p, err := to.file(filepath.Base(src))
	if err != nil {
		return err
	}
	return write(to.root, p, info.Mode(), func(w io.Writer) error {
		f, err := os.Open(src) //nolint:gosec // an input that its user named
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		_, err = io.Copy(w, f)
		return err
	})
}

func (t Transfer) copyDir(ctx context.Context, src string, to place, note func(string)) error {
	from, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	if note == nil {
		note = func(string) {}
	}
	entries, err := Scan{Note: note}.list(ctx, from)
	if err != nil {
		return err
	}
	if err := to.root.MkdirAll(to.path, 0o755); err != nil {
		return err
	}
	return t.each(ctx, len(entries), func(_ context.Context, i int) error {
		f := entries[i].File
		name := f.Path
		f.Path = path.Join(to.path, name)
		switch {
		case f.Dir:
			return to.root.MkdirAll(f.Path, 0o755)
		case f.Link != "":
			return link(to.root, &f)
		}
		return write(to.root, f.Path, f.Mode, func(w io.Writer) error {
			r, err := from.Open(name)
			if err != nil {
				return err
			}
			defer r.Close() //nolint:errcheck // only read
			_, err = io.Copy(w, r)
			return err
		})
	})
}

func (t Transfer) fetchBucket(ctx context.Context, open bucket.Openers, uri string, to place) error {
	b, key, err := open.Object(ctx, uri)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	if key != "" && !strings.HasSuffix(key, "/") {
		exists := false
		err := t.retry(ctx, func() (err error) { exists, err = b.Exists(ctx, key); return err })
		if err != nil {
			return err
		}
		if exists {
			p, err := to.file(path.Base(key))
			if err != nil {
				return err
			}
			return t.retry(ctx, func() error { return get(ctx, b, key, to.root, &File{Path: p}) })
		}
		key += "/"
	}
	files, err := below(ctx, b, key, to.path)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return ErrNotFound
	}
	return t.each(ctx, len(files), func(ctx context.Context, i int) error {
		return t.retry(ctx, func() error { return get(ctx, b, files[i].key, to.root, &File{Path: files[i].path}) })
	})
}

type object struct{ key, path string }

// below lists the objects below prefix with the paths they get below dst.
func below(ctx context.Context, b *blob.Bucket, prefix, dst string) ([]object, error) {
	var out []object
	it := b.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			if gcerrors.Code(err) == gcerrors.NotFound {
				return nil, ErrNotFound
			}
			return nil, err
		}
		if strings.HasSuffix(o.Key, "/") { // a directory's stand-in, as consoles make them
			continue
		}
		// The key's own part must stay inside, before it is joined to dst, which would tidy away what leaves it.
		rel := strings.TrimPrefix(o.Key, prefix)
		if err := inside(rel); err != nil {
			return nil, err
		}
		if out = append(out, object{o.Key, path.Join(dst, rel)}); len(out) > MaxFiles {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, MaxFiles)
		}
	}
}

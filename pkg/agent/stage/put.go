package stage

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/agent/bucket"
)

// Put copies a file or directory, src below dir, to uri, plainly: no manifest, so a reader may see a part of it
// meanwhile. A file goes to the object that uri names, or below it when uri ends in "/"; the files of a directory go
// below uri.
func (t Transfer) Put(ctx context.Context, open bucket.Openers, dir, src, uri string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	info, err := root.Stat(src)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return t.putDir(ctx, open, root, src, uri)
	}
	b, key, err := open.Object(ctx, uri)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	if key == "" || strings.HasSuffix(key, "/") {
		key += path.Base(src)
	}
	return t.retry(ctx, func() error {
		_, err := put(ctx, b, key, root, &File{Path: src, Size: info.Size()})
		return err
	})
}

func (t Transfer) putDir(ctx context.Context, open bucket.Openers, root *os.Root, src, uri string) error {
	from, err := root.OpenRoot(src)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	entries, err := Scan{}.list(ctx, from)
	if err != nil {
		return err
	}
	b, err := open.Open(ctx, uri)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	return t.each(ctx, len(entries), func(ctx context.Context, i int) error {
		f := entries[i].File
		if f.Dir {
			return nil
		}
		if f.Link != "" { // buckets have no links: what it points to is copied
			info, err := from.Stat(f.Path)
			if err != nil || !info.Mode().IsRegular() {
				return notAFile(f.Path, info, err)
			}
			f.Size = info.Size()
		}
		return t.retry(ctx, func() error {
			_, err := put(ctx, b, f.Path, from, &f)
			return err
		})
	})
}

// notAFile refuses a link that a bucket cannot stand in for.
func notAFile(p string, info fs.FileInfo, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: cannot copy a link to a %s into a bucket", p, info.Mode().Type())
}

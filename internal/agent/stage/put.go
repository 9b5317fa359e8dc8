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

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Put copies a file or directory, src below dir, to uri, without a manifest, so a reader may see a part of it
// meanwhile. A file becomes the object that uri names, or an object below it if uri ends in "/" or is a bucket. The
// files of a directory go below uri.
func (t Transfer) Put(ctx context.Context, dir, src, uri string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	info, err := root.Stat(src)
	if err != nil {
		return err
	}
	to, local, err := t.local(uri)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if root, err = root.OpenRoot(src); err != nil {
			return err
		}
		defer root.Close() //nolint:errcheck // only read
		list, err := plainFiles(ctx, root, local)
		if err == nil && local {
			return t.putFiles(ctx, list, to)
		}
		if err == nil {
			err = t.sendBelow(ctx, list, uri)
		}
		return err
	}
	if !info.Mode().IsRegular() { // reading a pipe would block for ever
		return fmt.Errorf("%s: neither a file nor a directory: %s", src, info.Mode())
	}
	file := &source{root: root, path: src, size: info.Size(), uri: uri}
	if local {
		if name := path.Base(src); strings.HasSuffix(uri, "/") {
			to = filepath.Join(to, name)
		}
		return file.copy(to)
	}
	if _, err := grant.ParsePrefix(uri); err == nil {
		if file.uri, err = grant.Below(uri, path.Base(src)); err != nil {
			return err
		}
	}
	return t.sendAll(ctx, []*source{file})
}

// PutFiles copies files below dir to objects with the same names below uri, which must not be a folder of this
// machine. For links it copies the target. It returns ErrLeaves if a target is not below dir, and ErrChanging if a
// file is written meanwhile.
func (t Transfer) PutFiles(ctx context.Context, dir string, files []string, uri string) error {
	prefix, err := grant.AsPrefix(uri)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	list := make([]*source, len(files))
	for i, file := range files {
		info, err := root.Stat(file)
		if err != nil || !info.Mode().IsRegular() {
			return notAFile(file, info, err)
		}
		list[i] = &source{root: root, path: file, size: info.Size()}
	}
	return t.sendBelow(ctx, list, prefix)
}

// plainFiles lists the files of a directory for a copy to a store or to a folder of this machine. Stores have no
// links, so the target is copied.
func plainFiles(ctx context.Context, root *os.Root, local bool) ([]*source, error) {
	entries, err := Scan{local: local}.list(ctx, root)
	if err != nil {
		return nil, err
	}
	list := make([]*source, 0, len(entries))
	for _, e := range entries {
		if e.Dir {
			continue
		}
		s := &source{root: root, path: e.Path, size: e.Size}
		if e.Link != "" {
			s.at = path.Join(path.Dir(e.Path), e.Link) // os.Root does not follow absolute links
			info, err := root.Stat(s.at)
			if err != nil || !info.Mode().IsRegular() {
				return nil, notAFile(e.Path, info, err)
			}
			s.size = info.Size()
		}
		list = append(list, s)
	}
	return list, nil
}

// notAFile returns the error for a file that cannot become an object.
func notAFile(p string, info fs.FileInfo, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: cannot copy a link to a %s into a bucket", p, info.Mode().Type())
}

func (t Transfer) sendBelow(ctx context.Context, list []*source, uri string) (err error) {
	for _, s := range list {
		if s.uri, err = grant.Below(uri, s.path); err != nil {
			return err
		}
	}
	return t.sendAll(ctx, list)
}

func (t Transfer) putFiles(ctx context.Context, list []*source, dir string) error {
	return t.each(ctx, len(list), func(_ context.Context, i int) error {
		return list[i].copy(filepath.Join(dir, filepath.FromSlash(list[i].path)))
	})
}

// copy copies a file to a path of this machine. The file appears there when it is complete.
func (s *source) copy(to string) (err error) {
	dir, name := filepath.Split(to)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as a user's own mkdir
		return err
	}
	place, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	return write(place, name, 0, func(w *os.File) error {
		r, err := s.content()
		if err != nil {
			return err
		}
		defer r.Close() //nolint:errcheck // only read
		_, err = io.Copy(w, r)
		return err
	})
}

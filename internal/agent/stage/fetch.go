package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Fetch copies uri to dst below dir: one object or file, or everything below a prefix or directory. Like cp, it puts
// a single file into dst if dst ends in "/" or is a directory, and otherwise names the file dst. If dst is ".", it
// means dir itself. Fetch returns ErrNotFound if uri does not exist, and ErrLeaves if dst or a key would leave dir.
// It calls note for each entry of a local directory that it leaves out.
func (t Transfer) Fetch(ctx context.Context, uri, dir, dst string, note func(string)) error {
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
	to := destination{root: root, path: dst, into: into}
	p, local, err := t.local(uri)
	switch {
	case err != nil:
		return err
	case local:
		err = t.fetchLocal(ctx, p, to, note)
	default:
		err = t.fetchObjects(ctx, uri, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", uri, err)
	}
	return nil
}

// destination is the destination of a fetched file or directory.
type destination struct {
	root *os.Root
	path string
	into bool // a single file keeps its name, below path
}

// file returns the destination of a single file with that name.
func (p destination) file(name string) (string, error) {
	if !p.into {
		return p.path, nil
	}
	to := path.Join(p.path, name)
	return to, inside(to)
}

func (t Transfer) fetchLocal(ctx context.Context, src string, to destination, note func(string)) error {
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
	return write(to.root, p, info.Mode(), func(w *os.File) error {
		f, err := os.Open(src) //nolint:gosec // an input that its user named
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		_, err = io.Copy(w, f)
		return err
	})
}

func (t Transfer) copyDir(ctx context.Context, src string, to destination, note func(string)) error {
	from, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	if note == nil {
		note = func(string) {}
	}
	entries, err := Scan{Note: note, local: true}.list(ctx, from)
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
		return write(to.root, f.Path, f.Mode, func(w *os.File) error {
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

func (t Transfer) fetchObjects(ctx context.Context, uri string, to destination) error {
	if o, err := grant.Parse(uri); err == nil {
		p, err := to.file(path.Base(o.Key))
		if err != nil {
			return err
		}
		w := wanted{root: to.root, file: File{Path: p}, size: -1, uri: uri}
		if err := t.getAll(ctx, []wanted{w}); err == nil || !missing(err) {
			return err
		}
		uri += "/"
	}
	list, err := t.below(ctx, uri, to)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	return t.getAll(ctx, list)
}

// below lists the objects below a URI as files below a place.
func (t Transfer) below(ctx context.Context, uri string, to destination) ([]wanted, error) {
	prefix, err := grant.ParsePrefix(uri)
	if err != nil {
		return nil, err
	}
	var list []wanted
	for after, more := "", true; more; more = after != "" {
		var page grant.Page
		err := t.retry(ctx, isTemporary, func() (err error) {
			page, err = t.Grants.List(ctx, uri, after)
			return err
		})
		if errors.Is(err, grant.ErrNoBucket) {
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		if err != nil {
			return nil, err
		}
		for _, l := range page.Objects {
			o, err := grant.Parse(l.URI)
			if err != nil {
				return nil, err
			}
			// Check the key's relative part before it is joined to the destination, because Join would clean away any
			// "..".
			rel, ok := strings.CutPrefix(o.Key, prefix.Key)
			if err := inside(rel); err != nil || !ok {
				return nil, fmt.Errorf("path %q %w", rel, ErrLeaves)
			}
			file := File{Path: path.Join(to.path, rel)}
			list = append(list, wanted{root: to.root, file: file, size: l.Size, uri: l.URI})
		}
		if after = page.Next; len(list) > MaxFiles {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, MaxFiles)
		}
	}
	return list, nil
}

// local returns the path of a file or directory of this machine, if a URI names one: a file URI or an absolute path.
// It returns ErrURI for a path that is not absolute.
func (t Transfer) local(uri string) (p string, ok bool, err error) {
	if !strings.Contains(uri, "://") {
		if !filepath.IsAbs(uri) {
			return "", false, fmt.Errorf("%w %q: neither a URL nor an absolute path", grant.ErrURI, uri)
		}
		return uri, true, nil
	}
	u, err := url.Parse(uri)
	granted := t.Store != "" && strings.HasPrefix(uri, strings.TrimSuffix(t.Store, "/")+"/")
	if err != nil || u.Scheme != "file" || granted {
		return "", false, nil //nolint:nilerr // the granter reports what is wrong with it
	}
	if u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) {
		return "", false, fmt.Errorf("%w %q: want file:///path", grant.ErrURI, uri)
	}
	return filepath.FromSlash(u.Path), true, nil
}

package filegrant

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// List implements grant.Store. Objects are in the order of a tree walk: a folder's content is at the folder's position.
func (s *Store) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	o, err := grant.ParsePrefixOf("file", prefix)
	if err != nil {
		return grant.Page{}, err
	}
	top := "."
	if o.Key != s.dir+"/" {
		if top, err = s.name(o); err != nil {
			return grant.Page{}, err
		}
		top = strings.TrimSuffix(top, "/")
	}
	var page grant.Page
	last := ""
	err = fs.WalkDir(s.root.FS(), top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed during the walk
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case d.IsDir() && (name == uploads || precedes(name, after) && !strings.HasPrefix(after, name+"/")):
			return fs.SkipDir
		case !d.Type().IsRegular() || after != "" && !precedes(after, name):
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // removed during the walk
		}
		if len(page.Objects) == grant.PageSize {
			page.Next = last
			return fs.SkipAll
		}
		last = name
		return page.Add(o, s.dir+"/"+name, info.Size())
	})
	if err != nil {
		return grant.Page{}, fmt.Errorf("filegrant: list %s: %w", o, err)
	}
	return page, nil
}

// precedes reports whether a walk reaches a before b.
func precedes(a, b string) bool {
	order := func(name string) string { return strings.ReplaceAll(name, "/", "\x00") }
	return order(a) < order(b)
}

// Keep delays removals: until release is called, Remove does nothing, and release then removes the objects that
// Remove was called for. Thus a copy of the folder has all objects of one moment.
func (s *Store) Keep() (release func()) {
	s.kept.Lock()
	defer s.kept.Unlock()
	s.kept.by++
	return sync.OnceFunc(func() {
		s.kept.Lock()
		s.kept.by--
		var late []string
		if s.kept.by == 0 {
			late, s.kept.late = s.kept.late, nil
		}
		s.kept.Unlock()
		for _, uri := range late {
			_ = s.Remove(context.Background(), uri) // the object was valid; an object that stays does no harm
		}
	})
}

// later notes an object to remove, if objects are kept at present.
func (s *Store) later(uri string) bool {
	s.kept.Lock()
	defer s.kept.Unlock()
	if s.kept.by > 0 {
		s.kept.late = append(s.kept.late, uri)
	}
	return s.kept.by > 0
}

// Remove implements grant.Store. It also removes folders that become empty.
func (s *Store) Remove(_ context.Context, uri string) error {
	if s.later(uri) {
		return nil
	}
	o, err := grant.ParseOf("file", uri)
	if err != nil {
		return err
	}
	name, err := s.name(o)
	if err != nil {
		return err
	}
	if info, err := s.root.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // no such object
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("filegrant: remove %s: %w", o, err)
	}
	for dir := path.Dir(name); dir != "." && s.root.Remove(dir) == nil; dir = path.Dir(dir) {
	}
	return nil
}

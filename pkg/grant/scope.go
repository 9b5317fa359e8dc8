package grant

import (
	"context"
	"fmt"
	"strings"
)

// Scope is the data that one attempt may access: URIs of objects and of prefixes. "s3://b/in" is the object in and
// everything below in/; "s3://b/in/" is only the part below in/; "s3://b" is the whole bucket. A URI that Parse would
// reject allows nothing, and neither does the root of the disk. Permission to write does not include permission to
// read.
type Scope struct {
	Read  []string
	Write []string
	Never []string // never accessible, even if Read or Write include it: the broker's own objects
}

// Check fails with ErrOutside for a want that the scope does not allow, and with ErrURI or ErrWant for an invalid
// want.
func (s Scope) Check(w Want) error {
	o, err := w.Check()
	if err != nil {
		return err
	}
	allowed := s.Write
	if w.Op == Get {
		allowed = s.Read
	}
	return s.within(allowed, o)
}

// checkList fails with ErrOutside if the scope does not allow reading the prefix.
func (s Scope) checkList(prefix string) error {
	o, err := ParsePrefix(prefix)
	if err != nil {
		return err
	}
	for _, never := range s.Never {
		if n, err := parse(never); err != nil || covers(o, n) {
			return fmt.Errorf("%w: %s", ErrOutside, o)
		}
	}
	return s.within(s.Read, o)
}

// Over returns a store that passes only requests inside the scope to store. One want outside rejects the whole batch.
func (s Scope) Over(store Store) Store { return scoped{scope: s, store: store} }

func (s Scope) within(allowed []string, o Object) error {
	if anyCovers(s.Never, o) || !anyCovers(allowed, o) {
		return fmt.Errorf("%w: %s", ErrOutside, o)
	}
	return nil
}

// anyCovers reports whether one of the URIs covers an object.
func anyCovers(uris []string, o Object) bool {
	for _, prefix := range uris {
		if p, err := parse(prefix); err == nil && covers(p, o) {
			return true
		}
	}
	return false
}

// covers compares bytes: case and Unicode forms matter, as in the stores.
func covers(prefix, o Object) bool {
	if prefix.Scheme != o.Scheme || prefix.Bucket != o.Bucket {
		return false
	}
	if prefix.Key == "" {
		return o.Scheme != "file"
	}
	return o.Key == prefix.Key || strings.HasPrefix(o.Key, strings.TrimSuffix(prefix.Key, "/")+"/")
}

type scoped struct {
	scope Scope
	store Store
}

func (s scoped) Sign(ctx context.Context, wants ...Want) ([]Grant, error) {
	for _, w := range wants {
		if err := s.scope.Check(w); err != nil {
			return nil, err
		}
	}
	return s.store.Sign(ctx, wants...)
}

func (s scoped) mayWrite(uri string) error {
	o, err := Parse(uri)
	if err != nil {
		return err
	}
	return s.scope.within(s.scope.Write, o)
}

func (s scoped) List(ctx context.Context, prefix, after string) (Page, error) {
	if err := s.scope.checkList(prefix); err != nil {
		return Page{}, err
	}
	return s.store.List(ctx, prefix, after)
}

func (s scoped) Remove(ctx context.Context, uri string) error {
	if err := s.mayWrite(uri); err != nil {
		return err
	}
	return s.store.Remove(ctx, uri)
}

func (s scoped) Begin(ctx context.Context, uri string) (string, error) {
	if err := s.mayWrite(uri); err != nil {
		return "", err
	}
	return s.store.Begin(ctx, uri)
}

func (s scoped) Complete(ctx context.Context, uri, upload string, parts []Uploaded) error {
	if err := s.mayWrite(uri); err != nil {
		return err
	}
	return s.store.Complete(ctx, uri, upload, parts)
}

func (s scoped) Abort(ctx context.Context, uri, upload string) error {
	if err := s.mayWrite(uri); err != nil {
		return err
	}
	return s.store.Abort(ctx, uri, upload)
}

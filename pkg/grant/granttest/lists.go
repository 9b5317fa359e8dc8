package granttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// below lists all objects below a prefix and returns them with the number of pages.
func (s *suite) below(t *testing.T, prefix string) (all []grant.Listed, pages int) {
	t.Helper()
	for after := ""; ; {
		page, err := s.store.List(t.Context(), prefix, after)
		if err != nil {
			t.Fatalf("list %s: %v", prefix, err)
		}
		if len(page.Objects) > grant.PageSize {
			t.Errorf("a page of %d objects", len(page.Objects))
		}
		all, pages = append(all, page.Objects...), pages+1
		if after = page.Next; after == "" {
			return all, pages
		}
	}
}

func (s *suite) lists(t *testing.T) {
	prefix := s.uri(t, "tree") + "/"
	want := []grant.Listed{}
	for i, name := range []string{"a", "a-b", "a.b", "deep/er/x y", "deep-/z", "zu\u0308", "a%2Fb", "50%"} {
		uri, err := grant.Below(prefix, name)
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, uri, make([]byte, i))
		want = append(want, grant.Listed{URI: uri, Size: int64(i)})
	}
	s.put(t, strings.TrimSuffix(prefix, "/")+"-beside", []byte("no"))
	got, _ := s.below(t, prefix)
	order := func(a, b grant.Listed) int { return strings.Compare(a.URI, b.URI) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	for _, l := range got { // listed objects can be read
		if a := s.get(t, l.URI); !a.ok() || int64(len(a.body)) != l.Size {
			t.Errorf("%s: status %d, %d bytes, listed with %d", l.URI, a.status, len(a.body), l.Size)
		}
	}
	if deep, _ := s.below(t, prefix+"deep/"); len(deep) != 1 || deep[0].URI != prefix+"deep/er/x%20y" {
		t.Errorf("below deep/: %v", deep)
	}
	if none, _ := s.below(t, prefix+"none/"); len(none) != 0 {
		t.Errorf("below a missing prefix: %v", none)
	}
	if _, err := s.store.List(t.Context(), strings.TrimSuffix(prefix, "/"), ""); !errors.Is(err, grant.ErrURI) {
		t.Errorf("a list of an object: %v, want ErrURI", err)
	}
	if s.NoBucket != "" {
		if _, err := s.store.List(t.Context(), s.NoBucket, ""); !errors.Is(err, grant.ErrNoBucket) {
			t.Errorf("a list of a missing bucket: %v, want ErrNoBucket", err)
		}
	}
}

func (s *suite) pages(t *testing.T) {
	const many = grant.PageSize + 5
	prefix := s.uri(t, "many") + "/"
	wants, uris := make([]grant.Want, many), map[string]bool{}
	for i := range wants {
		wants[i] = grant.Want{Op: grant.Put, URI: fmt.Sprintf("%s%d/f%d", prefix, i%7, i), For: lasting, Size: 1}
		uris[wants[i].URI] = true
	}
	grants, err := s.store.Sign(t.Context(), wants...)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, some := range [][]grant.Grant{grants[:many/4], grants[many/4 : many/2], grants[many/2:]} {
		wg.Go(func() {
			for _, g := range some {
				mustDo(t, g, []byte("x"))
			}
		})
	}
	wg.Wait()
	got, pages := s.below(t, prefix)
	for _, l := range got {
		if !uris[l.URI] || l.Size != 1 {
			t.Errorf("listed %v twice, with a wrong size, or although it was not written", l)
		}
		delete(uris, l.URI)
	}
	if len(uris) != 0 || pages < 2 {
		t.Errorf("%d of %d objects are missing in %d pages", len(uris), many, pages)
	}
}

func (s *suite) remove(t *testing.T) {
	uri, kept := s.uri(t, "object"), s.uri(t, "kept")
	s.put(t, uri, []byte("body"))
	s.put(t, kept, []byte("body"))
	for range 2 {
		if err := s.store.Remove(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
	}
	s.absent(t, uri)
	s.holds(t, kept, []byte("body"))
}

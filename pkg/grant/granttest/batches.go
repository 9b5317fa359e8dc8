package granttest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the clouds check MD5
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

func (s *suite) batch(t *testing.T) {
	s.put(t, s.Prefix+"batch/7", []byte("seven"))
	wants := make([]grant.Want, 0, 1000)
	for i := range 1000 {
		w := grant.Want{Op: grant.Get, URI: fmt.Sprintf("%sbatch/%d", s.Prefix, i), For: lasting}
		if i%2 == 0 {
			w.Op, w.Size = grant.Put, int64(i)
		}
		wants = append(wants, w)
	}
	before := s.Calls()
	grants, err := s.store.Sign(t.Context(), wants...)
	if err != nil {
		t.Fatal(err)
	}
	if calls := s.Calls() - before; calls != 0 {
		t.Errorf("%d calls to the cloud for a batch", calls)
	}
	if len(grants) != len(wants) {
		t.Fatalf("%d grants for %d wants", len(grants), len(wants))
	}
	for i, g := range grants {
		if !strings.Contains(g.URL, fmt.Sprintf("batch/%d?", i)) {
			t.Fatalf("grant %d is for %v: out of order", i, g)
		}
	}
	if a := do(t, grants[7], nil); string(a.body) != "seven" {
		t.Errorf("one of a batch: status %d, %q", a.status, a.body)
	}
	mustDo(t, grants[8], []byte("of eight"))
	if none, err := s.store.Sign(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("an empty batch: %v, %v", none, err)
	}
}

func (s *suite) badWant(t *testing.T) {
	good := grant.Want{Op: grant.Get, URI: s.uri(t, "object"), For: lasting}
	for name, change := range map[string]func(*grant.Want){
		"no operation":   func(w *grant.Want) { w.Op = "" },
		"no object":      func(w *grant.Want) { w.URI = s.Prefix },
		"a path with ..": func(w *grant.Want) { w.URI = s.Prefix + "../x" },
		"no time":        func(w *grant.Want) { w.For = 0 },
		"get of a size":  func(w *grant.Want) { w.Size = 1 },
		"negative size":  func(w *grant.Want) { w.Op, w.Size = grant.Put, -1 },
		"too large":      func(w *grant.Want) { w.Op, w.Size = grant.Put, grant.MaxBody+1 },
		"short checksum": func(w *grant.Want) { w.Op, w.Sum = grant.Put, grant.Sum{Kind: grant.MD5, Value: []byte{1}} },
		"no upload":      func(w *grant.Want) { w.Op, w.Number = grant.Part, 1 },
		"part 0":         func(w *grant.Want) { w.Op, w.Upload = grant.Part, "u" },
		"part 10001":     func(w *grant.Want) { w.Op, w.Upload, w.Number = grant.Part, "u", grant.MaxParts+1 },
		"empty range":    func(w *grant.Want) { w.Range = &grant.Range{} },
		"range of a put": func(w *grant.Want) { w.Op, w.Range = grant.Put, &grant.Range{Length: 1} },
	} {
		bad := good
		change(&bad)
		grants, err := s.store.Sign(t.Context(), good, bad)
		if !errors.Is(err, grant.ErrWant) && !errors.Is(err, grant.ErrURI) || grants != nil {
			t.Errorf("%s: %v, %v", name, grants, err)
		}
	}
}

// secrets looks for keys and signatures in printed text.
func (s *suite) secrets(t *testing.T) {
	g := sign(t, s.store, grant.Want{Op: grant.Get, URI: s.uri(t, "object")})
	_, query, _ := strings.Cut(g.URL, "?")
	_, err := s.store.Sign(t.Context(), grant.Want{Op: "steal", URI: s.Prefix + "x", For: time.Hour})
	parts := []grant.Uploaded{{Number: 1, ETag: `"0"`}}
	bad := s.store.Complete(t.Context(), s.uri(t, "object"), "no-such-upload", parts)
	texts := fmt.Sprintf("%v %+v %#v %s %v %v", g, g, []grant.Grant{g}, g.LogValue(), err, bad)
	for _, secret := range append([]string{query}, s.Secrets...) {
		if strings.Contains(texts, secret) {
			t.Errorf("a secret is printed in %s", texts)
		}
	}
	for _, word := range []string{"ignature=", "sig=", "Security-Token"} {
		if strings.Contains(texts, word) {
			t.Errorf("%q is printed in %s", word, texts)
		}
	}
}

// begin begins an upload of a new object and sends its two parts.
func (s *suite) begin(t *testing.T) (uri, upload string, parts []grant.Uploaded, whole []byte) {
	t.Helper()
	uri = s.uri(t, "large object")
	upload, err := s.store.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Repeat([]byte("0123456789abcdef"), grant.MinPart/16)
	for i, body := range [][]byte{first, []byte("the end")} {
		a := mustDo(t, s.part(t, uri, upload, i+1, body), body)
		parts = append(parts, grant.Uploaded{Number: i + 1, ETag: a.header.Get("ETag")})
		whole = append(whole, body...)
	}
	return uri, upload, parts, whole
}

func (s *suite) part(t *testing.T, uri, upload string, number int, body []byte) grant.Grant {
	t.Helper()
	sum := md5.Sum(body) //nolint:gosec // the clouds check MD5
	return sign(t, s.store, grant.Want{
		Op: grant.Part, URI: uri, Upload: upload, Number: number, Size: int64(len(body)),
		Sum: grant.Sum{Kind: grant.MD5, Value: sum[:]},
	})
}

func (s *suite) multipart(t *testing.T) {
	uri, upload, parts, whole := s.begin(t)
	s.absent(t, uri)
	again := mustDo(t, s.part(t, uri, upload, 2, []byte("the end")), []byte("the end")) // again
	parts[1].ETag = again.header.Get("ETag")
	parts[0], parts[1] = parts[1], parts[0]
	if err := s.store.Complete(t.Context(), uri, upload, parts); err != nil {
		t.Fatal(err)
	}
	s.holds(t, uri, whole)
}

func (s *suite) otherPart(t *testing.T) {
	s.needs(t, Parts)
	uri, upload, parts, whole := s.begin(t)
	second := s.part(t, uri, upload, 2, []byte("the evil"))
	another := s.part(t, uri, upload, 1, []byte("the evil"))
	other := s.uri(t, "other")
	elsewhere, err := s.store.Begin(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]grant.Grant{
		"another number": another, "another upload": s.part(t, other, elsewhere, 2, []byte("the evil")),
		"no part at all": sign(t, s.store, grant.Want{Op: grant.Put, URI: uri, Size: 8}),
	} {
		mixed := target
		mixed.URL = transplant(second.URL, target.URL)
		refused(t, name, do(t, mixed, []byte("the evil")))
	}
	if err := s.store.Complete(t.Context(), uri, upload, parts); err != nil {
		t.Fatal(err)
	}
	s.holds(t, uri, whole)
	if err := s.store.Abort(t.Context(), other, elsewhere); err != nil {
		t.Error(err)
	}
}

// transplant puts the signature of one URL into another.
func transplant(from, to string) string {
	signature := func(rawURL string) string {
		_, query, _ := strings.Cut(rawURL, "?")
		for term := range strings.SplitSeq(query, "&") {
			name, _, _ := strings.Cut(term, "=")
			if name == "sig" || strings.HasSuffix(strings.ToLower(name), "signature") {
				return term
			}
		}
		return ""
	}
	return strings.Replace(to, signature(to), signature(from), 1)
}

func (s *suite) abort(t *testing.T) {
	uri, upload, parts, _ := s.begin(t)
	late := s.part(t, uri, upload, 2, []byte("the end"))
	for range 2 {
		if err := s.store.Abort(t.Context(), uri, upload); err != nil {
			t.Fatal(err)
		}
	}
	s.absent(t, uri)
	s.needs(t, Aborts)
	refused(t, "a part after the abort", do(t, late, []byte("the end")))
	if err := s.store.Complete(t.Context(), uri, upload, parts); !errors.Is(err, grant.ErrUpload) {
		t.Errorf("Complete after Abort: %v", err)
	}
	s.absent(t, uri)
}

func (s *suite) smallPart(t *testing.T) {
	s.needs(t, MinParts)
	uri := s.uri(t, "object")
	upload, err := s.store.Begin(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	var parts []grant.Uploaded
	for number := 1; number <= 2; number++ {
		a := mustDo(t, s.part(t, uri, upload, number, []byte("small")), []byte("small"))
		parts = append(parts, grant.Uploaded{Number: number, ETag: a.header.Get("ETag")})
	}
	if err := s.store.Complete(t.Context(), uri, upload, parts); !errors.Is(err, grant.ErrUpload) {
		t.Errorf("%v, want ErrUpload", err)
	}
	s.absent(t, uri)
	if err := s.store.Abort(t.Context(), uri, upload); err != nil {
		t.Error(err)
	}
}

func (s *suite) noUpload(t *testing.T) {
	uri, upload, parts, _ := s.begin(t)
	other := s.uri(t, "other")
	for name, c := range map[string]struct {
		uri, upload string
		parts       []grant.Uploaded
	}{
		"of another object": {other, upload, parts},
		"no parts":          {uri, upload, nil},
		"a duplicate part":  {uri, upload, []grant.Uploaded{parts[0], parts[0]}},
		"part 0":            {uri, upload, []grant.Uploaded{{Number: 0, ETag: parts[0].ETag}}},
		"a missing part":    {uri, upload, append([]grant.Uploaded{{Number: 3, ETag: parts[0].ETag}}, parts...)},
	} {
		if err := s.store.Complete(t.Context(), c.uri, c.upload, c.parts); !errors.Is(err, grant.ErrUpload) {
			t.Errorf("%s: %v, want ErrUpload", name, err)
		}
	}
	s.absent(t, uri)
	s.absent(t, other)
	if _, lacks := s.Lacks[PartETags]; !lacks {
		wrong := []grant.Uploaded{parts[0], {Number: 2, ETag: parts[0].ETag}}
		if err := s.store.Complete(t.Context(), uri, upload, wrong); !errors.Is(err, grant.ErrUpload) {
			t.Errorf("a part with another part's ETag: %v, want ErrUpload", err)
		}
	}
	if err := s.store.Abort(t.Context(), uri, upload); err != nil {
		t.Error(err)
	}
	s.needs(t, PartETags)
}

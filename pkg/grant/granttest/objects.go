package granttest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the clouds check MD5
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

func (s *suite) roundTrip(t *testing.T) {
	for _, body := range [][]byte{[]byte("hello"), {}, bytes.Repeat([]byte("0123456789abcdef"), 1<<14)} {
		uri := s.uri(t, "object")
		s.absent(t, uri)
		s.put(t, uri, body)
		s.holds(t, uri, body)
		s.put(t, uri, []byte("over it")) // the put may be repeated if an answer was lost
		s.holds(t, uri, []byte("over it"))
	}
}

// writeOnce puts a new object of any length. A second put is refused until the object is removed.
func (s *suite) writeOnce(t *testing.T) {
	const most = 1 << 20
	uri := s.uri(t, "object")
	g := sign(t, s.store, grant.Want{Op: grant.Put, URI: uri, Size: most, New: true})
	mustDo(t, g, []byte("short"))
	refused(t, "a second put", do(t, g, []byte("another")))
	s.holds(t, uri, []byte("short"))
	if err := s.store.Remove(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("x"), most)
	mustDo(t, g, long)
	s.holds(t, uri, long)
	other := s.uri(t, "other")
	for name := range g.Header {
		if _, lacks := s.Lacks[Headers]; lacks || !strings.Contains(strings.ToLower(name), "match") {
			continue
		}
		g := sign(t, s.store, grant.Want{Op: grant.Put, URI: other, Size: most, New: true})
		refused(t, "without "+name, do(t, without(g, name), []byte("x")))
	}
	for _, w := range []grant.Want{
		{Op: grant.Put, URI: uri, New: true}, {Op: grant.Get, URI: uri, New: true},
		{Op: grant.Part, URI: uri, New: true, Size: 1, Upload: "u", Number: 1},
	} {
		w.For = lasting
		if _, err := s.store.Sign(t.Context(), w); !errors.Is(err, grant.ErrWant) {
			t.Errorf("%+v: %v, want %v", w, err, grant.ErrWant)
		}
	}
}

func (s *suite) names(t *testing.T) {
	names := []string{
		"a b", "Zürich", "日本語", "zu\u0308", "a+b", "50%", "%41", "a%2Fb", "#1", "who?", "a?b=c&d=e", "a=b;c,d",
		"(1)'!*", "x:y@z", "~tilde", "{}[]|^`\"<>$", strings.Repeat("long", 50), "deep/er/and/deeper",
		"..a", "a..", "...", "👍", "%%", "%zz",
	}
	for _, name := range names {
		uri := s.uri(t, name)
		s.put(t, uri, []byte("content of "+name))
		s.holds(t, uri, []byte("content of "+name))
	}
}

func (s *suite) ranges(t *testing.T) {
	uri := s.uri(t, "object")
	s.put(t, uri, []byte("0123456789"))
	g := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri, Range: &grant.Range{From: 2, Length: 3}})
	if a := do(t, g, nil); a.status != http.StatusPartialContent || string(a.body) != "234" {
		t.Errorf("signed range: status %d, %q", a.status, a.body)
	}
	open := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri})
	a := do(t, with(open, "Range", "bytes=7-"), nil)
	if a.status != http.StatusPartialContent || string(a.body) != "789" {
		t.Errorf("range chosen by the client: status %d, %q", a.status, a.body)
	}
}

// sums sends the promised body and a different body of the same length.
func (s *suite) sums(t *testing.T) {
	body, other := []byte("the right bytes"), []byte("the wrong bytes")
	md, sha := md5.Sum(body), sha256.Sum256(body) //nolint:gosec // the clouds check MD5
	crc := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	for _, sum := range []grant.Sum{
		{Kind: grant.MD5, Value: md[:]}, {Kind: grant.SHA256, Value: sha[:]}, {Kind: grant.CRC32C, Value: crc},
	} {
		t.Run(string(sum.Kind), func(t *testing.T) {
			uri := s.uri(t, "object")
			want := grant.Want{Op: grant.Put, URI: uri, For: lasting, Size: int64(len(body)), Sum: sum}
			grants, err := s.store.Sign(t.Context(), want)
			if errors.Is(err, errors.ErrUnsupported) && sum.Kind != grant.MD5 {
				t.Skipf("the cloud does not check it: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			g := grants[0]
			mustDo(t, g, body)
			refused(t, "other bytes", do(t, g, other))
			s.holds(t, uri, body)
			s.needs(t, Headers)
			for name := range g.Header {
				refused(t, "without "+name, do(t, without(g, name), other))
			}
			s.holds(t, uri, body)
		})
	}
}

func (s *suite) otherObject(t *testing.T) {
	mine, other := s.uri(t, "mine"), s.uri(t, "other")
	s.put(t, mine, []byte("mine"))
	s.put(t, other, []byte("other"))
	elsewhere, err := grant.Parse(s.Other + "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, elsewhere.String(), []byte("elsewhere"))
	for _, op := range []grant.Op{grant.Get, grant.Put} {
		w := grant.Want{Op: op, URI: mine}
		if op == grant.Put {
			w.Size = 4
		}
		g := sign(t, s.store, w)
		for _, uri := range []string{other, elsewhere.String(), mine + "2", strings.ToUpper(mine[len(s.Prefix):])} {
			if !strings.Contains(uri, "://") {
				uri = s.Prefix + uri
			}
			w.URI = uri
			target, err := url.Parse(sign(t, s.store, w).URL)
			if err != nil {
				t.Fatal(err)
			}
			moved := g
			moved.URL = strings.SplitN(target.String(), "?", 2)[0] + "?" + strings.SplitN(g.URL, "?", 2)[1]
			refused(t, string(op)+" of "+uri, do(t, moved, bytes.Repeat([]byte("x"), int(w.Size))))
		}
		dotted := g
		dotted.URL = strings.Replace(g.URL, "/mine?", "/mine/../mine2?", 1)
		refused(t, string(op)+" of a dotted path", do(t, dotted, bytes.Repeat([]byte("x"), int(w.Size))))
	}
	s.holds(t, other, []byte("other"))
	s.holds(t, elsewhere.String(), []byte("elsewhere"))
	s.absent(t, mine+"2")
}

func (s *suite) otherMethod(t *testing.T) {
	uri := s.uri(t, "object")
	s.put(t, uri, []byte("body"))
	read := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri})
	write := sign(t, s.store, grant.Want{Op: grant.Put, URI: uri, Size: 4})
	overwrite := read // a write request in all except the signature
	overwrite.Header = write.Header
	for method, g := range map[string]grant.Grant{
		http.MethodPut: overwrite, http.MethodDelete: write, http.MethodPost: read, http.MethodGet: write,
	} {
		g.Method = method
		var body []byte
		if method == http.MethodPut || method == http.MethodPost {
			body = []byte("evil")
		}
		refused(t, method, do(t, g, body))
	}
	read.Method = http.MethodDelete
	refused(t, "DELETE of a read", do(t, read, nil))
	s.holds(t, uri, []byte("body"))
}

func (s *suite) expiry(t *testing.T) {
	uri := s.uri(t, "object")
	s.put(t, uri, []byte("body"))
	now := time.Now()
	past := s.At(now.Add(-time.Hour))
	for _, w := range []grant.Want{
		{Op: grant.Get, URI: uri, For: 30 * time.Minute}, {Op: grant.Put, URI: uri, For: 30 * time.Minute, Size: 4},
	} {
		g := sign(t, past, w)
		if d := g.Expires.Sub(now.Add(-30 * time.Minute)); d > time.Second || d < -2*time.Second {
			t.Errorf("the expiry of %s is wrong by %v", w.Op, d)
		}
		refused(t, "expired "+string(w.Op), do(t, g, bytes.Repeat([]byte("x"), int(w.Size))))
		w.For = 2 * time.Hour // also signed in the past but still valid: only the expiry was rejected
		mustDo(t, sign(t, past, w), []byte("body")[:w.Size])
	}
	s.holds(t, uri, []byte("body"))
	g := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri, For: 1000 * time.Hour})
	if g.Expires.Sub(now) > 169*time.Hour {
		t.Errorf("a grant until %v: no cloud gives more than seven days", g.Expires)
	}
}

func (s *suite) otherHeader(t *testing.T) {
	s.needs(t, Headers)
	uri := s.uri(t, "object")
	s.put(t, uri, []byte("0123456789"))
	g := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri, Range: &grant.Range{From: 2, Length: 3}})
	if len(g.Header) == 0 {
		t.Fatal("no header for a range")
	}
	for name := range g.Header {
		refused(t, "without "+name, do(t, without(g, name), nil))
		refused(t, "other "+name, do(t, with(g, name, "bytes=0-9"), nil))
	}
}

func (s *suite) otherLength(t *testing.T) {
	s.needs(t, Lengths)
	for _, size := range []int64{4, 0} {
		uri := s.uri(t, "object")
		g := sign(t, s.store, grant.Want{Op: grant.Put, URI: uri, Size: size})
		refused(t, "longer", do(t, g, []byte("longer")))
		if size > 0 {
			refused(t, "shorter", do(t, g, []byte("s")))
		}
		s.absent(t, uri)
	}
}

// otherTerm changes one query parameter after the other, and also removes each.
func (s *suite) otherTerm(t *testing.T) {
	uri := s.uri(t, "object")
	s.put(t, uri, []byte("body"))
	g := sign(t, s.store, grant.Want{Op: grant.Get, URI: uri})
	base, query, _ := strings.Cut(g.URL, "?")
	terms := strings.Split(query, "&")
	for i, term := range terms {
		name, value, _ := strings.Cut(term, "=")
		if name == "x-id" { // the name of the operation, for S3's logs
			continue
		}
		changed := g
		changed.URL = base + "?" + strings.Join(slices.Concat(terms[:i], terms[i+1:]), "&")
		refused(t, "without "+name, do(t, changed, nil))
		flipped := []byte(value)
		if len(flipped) > 0 {
			flipped[0] ^= 1
		}
		other := slices.Concat(terms[:i], []string{name + "=" + string(flipped)}, terms[i+1:])
		changed.URL = base + "?" + strings.Join(other, "&")
		refused(t, "another "+name, do(t, changed, nil))
	}
}

func with(g grant.Grant, name, value string) grant.Grant {
	header := map[string]string{name: value}
	for k, v := range g.Header {
		if k != name {
			header[k] = v
		}
	}
	g.Header = header
	return g
}

func without(g grant.Grant, name string) grant.Grant {
	g = with(g, name, "")
	delete(g.Header, name)
	return g
}

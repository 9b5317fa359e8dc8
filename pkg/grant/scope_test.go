package grant_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

func get(uri string) grant.Want { return grant.Want{Op: grant.Get, URI: uri, For: time.Minute} }
func put(uri string) grant.Want { return grant.Want{Op: grant.Put, URI: uri, For: time.Minute} }

func TestScope(t *testing.T) {
	s := grant.Scope{
		Read:  []string{"s3://in/data", "s3://in/dir/", "gs://whole", "file:///srv/in", "file:///", "s3://", "s3://in/../x"},
		Write: []string{"s3://out/job/3/", "azblob://c/%C3%A9/"},
	}
	for uri, allowed := range map[string]bool{
		"s3://in/data": true, "s3://in/data/a": true, "s3://in/data/a%20b": true, "s3://in/%64ata/a": true,
		"s3://in/dir/a": true, "gs://whole/anything/at/all": true, "file:///srv/in/x": true, "file://localhost/srv/in/x": true,
		"s3://in/data2": false, "s3://in/dat": false, "s3://in/Data": false, "s3://IN/data": false, "S3://in/data": false,
		"s3://in2/data": false, "s3://in": false, "s3://in/": false, "s3://in/data/": false, "gs://in/data": false,
		"s3://in/data/../secret": false, "s3://in/data/./a": false, "s3://in/data//a": false, "s3://in//data": false,
		"s3://in/data/..": false, "s3://in/data/%2e%2e/secret": false, "s3://in/data/%252e%252e/secret": false,
		"s3://in/data/%2E.": false, "s3://in/data%2fa": false, "s3://in/data/a b%2Fc": false, "s3://in/data/..%2f..%2fsecret": false, "s3://in/data/a%00": false,
		"s3://in/data/a%0a": false, "s3://in/data/..%5c..%5csecret": false, `s3://in/data/a\b`: false, "s3://in/data/a?b": false,
		"s3://in/data/a#b": false, "s3://in/data/a%": false, "s3://in/data/%ff": false, "s3://user@in/data": false,
		"s3://in:80/data": false, "s3://in%2e/data": false, "file:///srv/in2": false, "file:///etc/passwd": false,
		"file://host/srv/in/x": false, "file:/srv/in/x": false, "/srv/in/x": false, "": false, "s3://": false, "s3:///in/data": false,
		"s3://in/data/" + strings.Repeat("x", 1020): false, "s3://out/job/3/a": false,
	} {
		if err := s.Check(get(uri)); (err == nil) != allowed {
			t.Errorf("read %s: %v, want allowed: %v", uri, err, allowed)
		}
	}
	for uri, allowed := range map[string]bool{
		"s3://out/job/3/a": true, "azblob://c/é/x": true, "azblob://c/e\u0301/x": false,
		"s3://out/job/3": false, "s3://out/job/30/a": false, "s3://in/data": false, "s3://out/job/3/../4/a": false,
	} {
		if err := s.Check(put(uri)); (err == nil) != allowed {
			t.Errorf("write %s: %v, want allowed: %v", uri, err, allowed)
		}
	}
}

// recorder is a store that records its calls.
type recorder struct{ asked []string }

func (r *recorder) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants := make([]grant.Grant, len(wants))
	for i, w := range wants {
		r.asked = append(r.asked, w.URI)
		grants[i].URL = w.URI
	}
	return grants, nil
}

func (r *recorder) Begin(_ context.Context, uri string) (string, error) {
	r.asked = append(r.asked, uri)
	return "upload", nil
}

func (r *recorder) Complete(_ context.Context, uri, _ string, _ []grant.Uploaded) error {
	r.asked = append(r.asked, uri)
	return nil
}

func (r *recorder) Abort(_ context.Context, uri, _ string) error {
	r.asked = append(r.asked, uri)
	return nil
}

func (r *recorder) List(_ context.Context, prefix, _ string) (grant.Page, error) {
	r.asked = append(r.asked, prefix)
	return grant.Page{}, nil
}

func (r *recorder) Remove(_ context.Context, uri string) error {
	r.asked = append(r.asked, uri)
	return nil
}

func TestScopeRejectsBeforeCallingStore(t *testing.T) {
	var r recorder
	s := grant.Scope{Read: []string{"s3://b/in"}, Write: []string{"s3://b/out"}}.Over(&r)
	_, signed := s.Sign(t.Context(), get("s3://b/in/a"), put("s3://b/in/a"))
	_, begun := s.Begin(t.Context(), "s3://b/in/a")
	_, listed := s.List(t.Context(), "s3://b/", "")
	_, beside := s.List(t.Context(), "s3://b/in2/", "")
	_, written := s.List(t.Context(), "s3://b/out/", "")
	for name, err := range map[string]error{
		"sign": signed, "begin": begun, "complete": s.Complete(t.Context(), "s3://b/in/a", "u", nil),
		"abort": s.Abort(t.Context(), "s3://b/in/a", "u"), "remove": s.Remove(t.Context(), "s3://b/in/a"),
		"list of a larger prefix": listed, "list of another prefix": beside, "list of a writable prefix": written,
	} {
		if !errors.Is(err, grant.ErrOutside) {
			t.Errorf("%s: %v, want ErrOutside", name, err)
		}
	}
	if len(r.asked) != 0 {
		t.Errorf("the store was called for %v", r.asked)
	}
	if _, err := s.Sign(t.Context(), get("s3://b/in/a"), put("s3://b/out/a")); err != nil || len(r.asked) != 2 {
		t.Errorf("%v, %v", r.asked, err)
	}
	if _, err := s.Begin(t.Context(), "s3://b/out/a"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Complete(t.Context(), "s3://b/out/a", "u", nil), s.Abort(t.Context(), "s3://b/out/a", "u")); err != nil {
		t.Error(err)
	}
	for _, prefix := range []string{"s3://b/in/", "s3://b/in/deep/"} {
		if _, err := s.List(t.Context(), prefix, ""); err != nil {
			t.Error(err)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range [][3]string{
		{"s3://b", "a b", "s3://b/a%20b"}, {"s3://b/", "a", "s3://b/a"}, {"s3://b/in", "50%/é", "s3://b/in/50%25/%C3%A9"},
		{"file:///state/objects", "job/x/", "file:///state/objects/job/x/"},
	} {
		if got, err := grant.Below(c[0], c[1]); err != nil || got != c[2] {
			t.Errorf("%s below %s: %s, %v, want %s", c[1], c[0], got, err, c[2])
		}
	}
	for _, c := range [][2]string{{"s3://b", "../a"}, {"s3://b/in", "a//b"}, {"s3://b/in", "/a"}, {"b", "a"}, {"s3://b?region=x", "a"}} {
		if got, err := grant.Below(c[0], c[1]); !errors.Is(err, grant.ErrURI) {
			t.Errorf("%s below %s: %s, %v, want ErrURI", c[1], c[0], got, err)
		}
	}
}

func TestMuxCallsStoreOfEachObject(t *testing.T) {
	var s3, tokyo, gs recorder
	m := grant.Mux{"s3": &s3, "s3://tokyo": &tokyo, "gs": &gs}
	uris := []string{"s3://a/1", "gs://b/2", "s3://tokyo/3", "s3://a/4", "gs://tokyo/5"}
	wants := make([]grant.Want, 0, len(uris))
	for _, uri := range uris {
		wants = append(wants, get(uri))
	}
	grants, err := m.Sign(t.Context(), wants...)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range grants {
		if g.URL != uris[i] {
			t.Errorf("grant %d is for %s, want %s", i, g.URL, uris[i])
		}
	}
	if !slices.Equal(s3.asked, []string{"s3://a/1", "s3://a/4"}) || !slices.Equal(tokyo.asked, []string{"s3://tokyo/3"}) {
		t.Errorf("s3 %v, tokyo %v", s3.asked, tokyo.asked)
	}
	if _, err := m.Sign(t.Context(), get("s3://a/1"), get("azblob://c/x")); !errors.Is(err, grant.ErrStore) {
		t.Errorf("an unknown scheme: %v", err)
	}
	if upload, err := m.Begin(t.Context(), "s3://tokyo/x"); err != nil || upload != "upload" || len(tokyo.asked) != 2 {
		t.Errorf("begin: %v, %v", upload, err)
	}
}

// segments are path segments, some of which could be used to escape a prefix.
var segments = []string{
	"a", "b", "A", "ab", "a b", "é", "..", ".", "", "...", "..a", "%2e%2e", "%2e", "%252e%252e", "%2f", "a%2fb", "%2F..", "%61", "a+b",
	"%5c", `\`, "?", "#", "%00", "%", "%25", "x%20y", "%C3%A9", "~",
}

// allowedSlowly decides by the definition. The path of a URI (after scheme and bucket) is decoded once and split into
// segments. The URI is allowed if no segment is empty or dots (even if decoded again), and the segments begin with
// those of a prefix.
func allowedSlowly(prefixes []string, uri string) bool {
	path, ok := clean(uri)
	if !ok || len(path) < 2 || path[len(path)-1] == "" {
		return false
	}
	for _, p := range prefixes {
		prefix, ok := clean(p)
		if !ok {
			continue
		}
		// a prefix that ends in a slash allows only URIs below it
		if last := len(prefix) - 1; last > 0 && prefix[last] == "" {
			if prefix = prefix[:last]; len(path) <= len(prefix) {
				continue
			}
		}
		if len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// clean returns the bucket and the segments of a URI. The last segment is empty if the URI ends in a slash.
func clean(uri string) ([]string, bool) {
	rest, ok := strings.CutPrefix(uri, "s3://")
	if !ok || strings.ContainsAny(rest, `?#\`) {
		return nil, false
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil || strings.ContainsAny(decoded, "/\\\x00") || i == 0 && decoded != part {
			return nil, false
		}
		for again := decoded; ; {
			if again == "." || again == ".." {
				return nil, false
			}
			next, err := url.PathUnescape(again)
			if err != nil || next == again {
				break
			}
			again = next
		}
		if decoded == "" && (i == 0 || i < len(parts)-1) {
			return nil, false
		}
		parts[i] = decoded
	}
	return parts, true
}

func TestScopeMatchesItsDefinition(t *testing.T) {
	uri := rapid.Custom(func(t *rapid.T) string {
		bucket := rapid.SampledFrom([]string{"bucket", "bucket", "bucket", "Bucket", "bucket2"}).Draw(t, "bucket")
		path := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom(segments[:4]), rapid.SampledFrom(segments)), 0, 4).Draw(t, "path")
		return "s3://" + strings.Join(append([]string{bucket}, path...), "/")
	})
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		s := grant.Scope{Read: rapid.SliceOfN(uri, 1, 3).Draw(t, "scope")}
		asked := uri.Draw(t, "uri")
		if rapid.Bool().Draw(t, "below") {
			asked = s.Read[0] + "/" + rapid.SampledFrom(segments).Draw(t, "name")
		}
		err := s.Check(get(asked))
		want := allowedSlowly(s.Read, asked)
		if (err == nil) != want {
			t.Fatalf("%q in %q: %v, want allowed: %v", asked, s.Read, err, want)
		}
		if want {
			allowed++
		}
	})
	if allowed == 0 {
		t.Error("nothing was allowed, so the test is useless")
	}
}

// A parsed URI that is written and parsed again must be the same, and no allowed URI may be outside of its prefix.
func FuzzScope(f *testing.F) {
	for _, s := range segments {
		f.Add("s3://bucket/in/" + s)
		f.Add("file:///srv/in/" + s + "/x")
	}
	f.Add("gs://bucket/in/%E2%80%AE/\u2028")
	scope := grant.Scope{Read: []string{"s3://bucket/in/", "gs://bucket/in/", "azblob://bucket/in/", "file:///bucket/in/"}}
	f.Fuzz(func(t *testing.T, uri string) {
		o, err := grant.Parse(uri)
		if err != nil {
			if scope.Check(get(uri)) == nil {
				t.Fatalf("%q is allowed but not a URI", uri)
			}
			return
		}
		again, err := grant.Parse(o.String())
		if err != nil || again != o {
			t.Fatalf("%q is %+v, but written and parsed again %q, %+v, %v", uri, o, o.String(), again, err)
		}
		for _, s := range strings.Split(o.Key, "/") {
			if s == "" || s == "." || s == ".." {
				t.Fatalf("%q has the segment %q", uri, s)
			}
		}
		inside := strings.HasPrefix(o.Key, "in/") && o.Bucket == "bucket" && o.Scheme != "file" ||
			strings.HasPrefix(o.Key, "bucket/in/") && o.Scheme == "file"
		known := slices.Contains([]string{"s3", "gs", "azblob", "file"}, o.Scheme)
		if allowed := scope.Check(get(uri)) == nil; allowed != (inside && known) {
			t.Fatalf("%q (%+v) is allowed: %v", uri, o, allowed)
		}
	})
}

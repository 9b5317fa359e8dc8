package grant

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxKey is the maximum length of an object's key in bytes of UTF-8, as in S3 and Google.
const maxKey = 1024

// Object is one object of a store, or a prefix of objects. Key is as stored, not escaped.
type Object struct {
	Scheme string // s3, gs, azblob or file
	Bucket string // the bucket or the container; empty for file
	Key    string // without a leading slash; for file, the absolute path without its first slash
}

// Parse reads an object's URI as jobs write it: s3://bucket/key, gs://bucket/key, azblob://container/key or
// file:///path, with the key percent-encoded. It fails with ErrURI for a URI that readers could understand in
// different ways: an empty segment, "." or ".." (also encoded any number of times), an encoded slash, a backslash
// (which Azure treats as a slash), control characters, invalid UTF-8, a query, a fragment, a user, a port, or
// capitals in the scheme.
func Parse(uri string) (Object, error) {
	o, err := parse(uri)
	if err != nil {
		return Object{}, err
	}
	if o.Key == "" || strings.HasSuffix(o.Key, "/") {
		return Object{}, fmt.Errorf("%w %q: it does not name an object", ErrURI, uri)
	}
	return o, nil
}

// ParseOf is Parse for a driver of one scheme: another scheme is ErrStore.
func ParseOf(scheme, uri string) (Object, error) {
	o, err := Parse(uri)
	if err != nil {
		return Object{}, err
	}
	return o.withScheme(scheme)
}

// ParsePrefix reads the URI of a prefix: the URI of a bucket, or one that ends in a slash.
func ParsePrefix(uri string) (Object, error) {
	o, err := parse(uri)
	if err != nil {
		return Object{}, err
	}
	if o.Key != "" && !strings.HasSuffix(o.Key, "/") {
		return Object{}, fmt.Errorf("%w %q: it names an object, but a prefix ends in a slash", ErrURI, uri)
	}
	return o, nil
}

// ParsePrefixOf is ParsePrefix for a driver of one scheme: another scheme is ErrStore.
func ParsePrefixOf(scheme, uri string) (Object, error) {
	o, err := ParsePrefix(uri)
	if err != nil {
		return Object{}, err
	}
	return o.withScheme(scheme)
}

// Below returns the URI of the unescaped key below a bucket or prefix. It fails with ErrURI.
func Below(prefix, key string) (string, error) {
	o, err := parse(prefix)
	if err != nil {
		return "", err
	}
	if o.Key != "" && !strings.HasSuffix(o.Key, "/") {
		o.Key += "/"
	}
	o.Key += key
	if why := badKey(o.Key); why != "" {
		return "", fmt.Errorf("%w %q: %s", ErrURI, o, why)
	}
	return o.String(), nil
}

// In returns the object with a key in the bucket of o, as an entry for a driver's list. ok is false for keys that are
// not objects: the folders that cloud consoles create. In fails with ErrURI for a key that cannot be a URI, because the
// list would otherwise silently omit the object.
func (o Object) In(key string, size int64) (l Listed, ok bool, err error) {
	if key == "" || strings.HasSuffix(key, "/") {
		return Listed{}, false, nil
	}
	if o.Key = key; badKey(key) != "" {
		return Listed{}, false, fmt.Errorf("%w: key %q cannot be a URI: %s", ErrURI, key, badKey(key))
	}
	return Listed{URI: o.String(), Size: size}, true, nil
}

// Add adds a key to the page if it is an object; see Object.In.
func (p *Page) Add(in Object, key string, size int64) error {
	l, ok, err := in.In(key, size)
	if ok {
		p.Objects = append(p.Objects, l)
	}
	return err
}

func (o Object) withScheme(scheme string) (Object, error) {
	if o.Scheme != scheme {
		return Object{}, fmt.Errorf("%w: this store is for %s://, not %s", ErrStore, scheme, o)
	}
	return o, nil
}

// String returns the URI of the object in its canonical form.
func (o Object) String() string {
	return o.Scheme + "://" + o.Bucket + "/" + o.EscapedKey()
}

// EscapedKey returns the key with every byte percent-encoded except slashes and RFC 3986's unreserved characters. All
// clouds sign a path in this form.
func (o Object) EscapedKey() string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(o.Key))
	for i := range len(o.Key) {
		switch c := o.Key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// bucketName reports whether any cloud accepts the name for a bucket or container. It excludes ports and escapes.
func bucketName(name string) bool {
	const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= 222 && strings.Contains(alnum+"$", name[:1]) &&
		strings.Trim(name[1:], alnum+"._-") == ""
}

// parse reads the URI of an object or of a prefix: its key may be empty or end in a slash.
func parse(uri string) (Object, error) {
	bad := func(why string) (Object, error) { return Object{}, fmt.Errorf("%w %q: %s", ErrURI, uri, why) }
	scheme, _, ok := strings.Cut(uri, "://")
	if !ok {
		return bad("no scheme")
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return bad("not a URL") // the parser's error would repeat the URI
	case u.Scheme != scheme:
		return bad("the scheme has capitals")
	case u.User != nil || strings.ContainsAny(uri, "?#"):
		return bad("it has a user, a query or a fragment; write ? and # in a key as %3F and %23")
	case strings.Contains(strings.ToLower(uri), "%2f"): // check the text: a parsed URL does not keep all of them
		return bad("it has an encoded slash")
	}
	o := Object{Scheme: scheme, Bucket: u.Host, Key: strings.TrimPrefix(u.Path, "/")}
	if scheme == "file" {
		if o.Bucket == "localhost" {
			o.Bucket = ""
		}
		if o.Bucket != "" || u.Path == "" {
			return bad("want file:///path")
		}
	} else if !bucketName(o.Bucket) {
		return bad("the bucket is missing or has an invalid name")
	}
	if why := badKey(o.Key); why != "" {
		return bad(why)
	}
	return o, nil
}

// badKey returns the fault of the key of an object or prefix, or "" if it is valid.
func badKey(key string) string {
	switch {
	case len(key) > maxKey:
		return fmt.Sprintf("the key is longer than %d bytes", maxKey)
	case !utf8.ValidString(key):
		return "the key is not UTF-8"
	case strings.ContainsRune(key, '\\'):
		return "the key has a backslash"
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "the key has a control character"
	case key == "":
		return ""
	}
	for segment := range strings.SplitSeq(strings.TrimSuffix(key, "/"), "/") {
		if segment == "" {
			return "the key has an empty segment"
		}
		if dots(segment) {
			return "the key has a segment . or .."
		}
	}
	return ""
}

// dots reports whether a segment is "." or "..", also after decoding it any number of times, as some proxy may do.
func dots(segment string) bool {
	for {
		if segment == "." || segment == ".." {
			return true
		}
		next, err := url.PathUnescape(segment)
		if err != nil || next == segment {
			return false
		}
		segment = next
	}
}

package grant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Errors of this package, wrapped with detail. No error and no text form of a Grant contains a signature or a key.
var (
	// ErrURI means that the input is not the URI of an object, or is ambiguous.
	ErrURI = errors.New("grant: bad URI")
	// ErrWant is returned for a want that no store can grant, such as a part without an upload.
	ErrWant = errors.New("grant: bad want")
	// ErrOutside is returned for an object that the attempt may not read or write.
	ErrOutside = errors.New("grant: outside of the scope")
	// ErrStore means that there is no store for that scheme or bucket.
	ErrStore = errors.New("grant: no such store")
	// ErrUpload means that the object has no such multipart upload (never begun, completed or aborted), or that the
	// parts are wrong.
	ErrUpload = errors.New("grant: no such upload")
	// ErrNoBucket means that there is no such bucket, container or folder, or the store may not access it.
	ErrNoBucket = errors.New("grant: no such bucket, or no permission to read it")
	// ErrCredentials means that the credentials for signing have expired or are not available.
	ErrCredentials = errors.New("grant: no valid credentials")
)

// Limits that hold for every store: the smallest of the clouds' limits.
const (
	MaxParts = 10_000     // parts of one upload (S3, Google)
	MinPart  = 5 << 20    // bytes of every part except the last (S3, Google); stores check it when the upload completes
	MaxBody  = 4000 << 20 // bytes of one put or part (Azure)
)

// Op is the operation that a grant allows, any number of times, until it expires.
type Op string

// The operations.
const (
	Get  Op = "get"  // read an object, or a range of it
	Put  Op = "put"  // write a whole object
	Part Op = "part" // write a part of a multipart upload
)

// Want is a request for one grant: one operation on one object.
type Want struct {
	Op  Op            `json:"op"`
	URI string        `json:"uri"`           // of the object; see Parse
	For time.Duration `json:"for,omitempty"` // how long; the store may grant less

	// get: exactly these bytes; nil means the whole object, or any range that the client requests
	Range *Range `json:"range,omitempty"`
	Size  int64  `json:"size,omitempty"` // put, part: the exact length of the body in bytes; see New
	// put: the object must not exist, and its body has 1 to Size bytes. The store refuses a second put: S3 and
	// Google with 412, or 409 during the first one, Azure with 403, because the right to create does not include
	// overwriting. S3 and Azure cannot limit the length: they accept more than Size bytes.
	New bool `json:"new,omitempty"`
	// put: the checksum of the body; part: its MD5 only. The zero Sum requires none
	Sum Sum `json:"sum,omitzero"`

	Upload string `json:"upload,omitempty"` // part: the upload, as returned by Begin
	Number int    `json:"number,omitempty"` // part: from 1 to MaxParts
}

// Range is a range of bytes of an object.
type Range struct {
	From   int64 `json:"from"`
	Length int64 `json:"length"`
}

// Header returns the range as the value of an HTTP Range header.
func (r Range) Header() string { return fmt.Sprintf("bytes=%d-%d", r.From, r.From+r.Length-1) }

// Sum is a checksum that the store compares with the bytes that arrive.
type Sum struct {
	Kind  SumKind `json:"kind"`
	Value []byte  `json:"value"`
}

// IsZero reports whether no checksum is given.
func (s Sum) IsZero() bool { return s.Kind == "" && len(s.Value) == 0 }

// SumKind is the algorithm of a Sum.
type SumKind string

// The algorithms. Every store checks MD5. If a cloud does not check an algorithm, the error is errors.ErrUnsupported.
const (
	MD5    SumKind = "md5"
	SHA256 SumKind = "sha256"
	CRC32C SumKind = "crc32c" // Castagnoli, big-endian
)

// Grant is an HTTP request that its holder may send until it expires. The URL alone gives the right: send it only over
// TLS and never log it. String, GoString and LogValue omit the secret part.
type Grant struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Header  map[string]string `json:"header,omitempty"` // send these unchanged; the store rejects other values
	Expires time.Time         `json:"expires"`
}

// Request returns the granted request with a body of size bytes; a get has none.
func (g Grant) Request(ctx context.Context, body io.Reader, size int64) (*http.Request, error) {
	if size == 0 {
		body = http.NoBody // an empty reader would be sent in chunks, without a length
	}
	req, err := http.NewRequestWithContext(ctx, g.Method, g.URL, body)
	if err != nil {
		return nil, Redact(err)
	}
	req.ContentLength = size
	for k, v := range g.Header {
		req.Header.Set(k, v)
	}
	return req, nil
}

// String describes the grant without its signature.
func (g Grant) String() string {
	return fmt.Sprintf("%s %s until %s", g.Method, withoutQuery(g.URL), g.Expires.UTC().Format(time.RFC3339))
}

// GoString is String, for %#v.
func (g Grant) GoString() string { return g.String() }

// LogValue is String, for slog.
func (g Grant) LogValue() slog.Value { return slog.StringValue(g.String()) }

// Signer signs requests.
type Signer interface {
	// Sign returns a grant for each want, in order, or an error and no grants. It makes no request to the cloud (except
	// to renew credentials), so a thousand grants cost only their computation.
	Sign(ctx context.Context, wants ...Want) ([]Grant, error)
}

// Store signs requests for objects of one cloud. It does the rest itself, with the broker's own rights: it begins and
// ends multipart uploads (see the package comment), lists and removes. Its methods are safe for concurrent use.
type Store interface {
	Signer
	// Begin begins a multipart upload of the object and returns its name, in printable ASCII.
	Begin(ctx context.Context, uri string) (upload string, err error)
	// Complete atomically makes the object from the parts, in the order of their numbers. It fails with ErrUpload if
	// there is no such upload, or if a part is missing or has another ETag.
	Complete(ctx context.Context, uri, upload string, parts []Uploaded) error
	// Abort ends an upload and drops its parts. A missing upload is no error, so Abort can be repeated.
	Abort(ctx context.Context, uri, upload string) error
	// List returns a page of the objects below a prefix, which is the URI of a bucket or ends in a slash. after is ""
	// for the first page, and Page.Next of the previous page for the others. Keys that end in a slash, which represent
	// folders, are omitted. A key that cannot be a URI fails the list with ErrURI. A missing prefix has no objects. A
	// bucket that does not exist or may not be read is ErrNoBucket.
	List(ctx context.Context, prefix, after string) (Page, error)
	// Remove removes an object. A missing object is no error.
	Remove(ctx context.Context, uri string) error
}

// Page is a part of a list.
type Page struct {
	Objects []Listed `json:"objects"`
	Next    string   `json:"next,omitempty"` // pass as after to get the next page; empty for the last page
}

// Listed is an object of a list.
type Listed struct {
	URI  string `json:"uri"`
	Size int64  `json:"size"` // bytes
}

// PageSize is the maximum number of objects of a page.
const PageSize = 1000

// Uploaded is a part that a store has received.
type Uploaded struct {
	Number int    `json:"number"`
	ETag   string `json:"etag"` // the ETag header of the answer to the part's request, unchanged
}

// CheckOf is Check for a driver of one scheme: another scheme is ErrStore. Drivers call it first.
func (w Want) CheckOf(scheme string) (Object, error) {
	o, err := w.Check()
	if err != nil {
		return Object{}, err
	}
	return o.withScheme(scheme)
}

// Check checks the want and returns its object, or ErrURI or ErrWant with the reason.
func (w Want) Check() (Object, error) {
	o, err := Parse(w.URI)
	if err != nil {
		return Object{}, err
	}
	if why := w.problem(); why != "" {
		return Object{}, fmt.Errorf("%w: %s of %s: %s", ErrWant, w.Op, o, why)
	}
	return o, nil
}

var sumBytes = map[SumKind]int{MD5: 16, SHA256: 32, CRC32C: 4, "": 0}

func (w Want) problem() string {
	switch {
	case w.For < time.Second:
		return "shorter than a second"
	case w.Op == Get:
		return w.problemOfGet()
	case w.Op == Put && (w.Upload != "" || w.Number != 0):
		return "only a part has an upload and a number"
	case w.Op == Part && (w.Upload == "" || w.Number < 1 || w.Number > MaxParts):
		return fmt.Sprintf("a part has an upload and a number from 1 to %d", MaxParts)
	case w.Op == Put || w.Op == Part:
		return w.problemOfBody()
	}
	return "not an operation"
}

func (w Want) problemOfGet() string {
	switch r := w.Range; {
	case w.Size != 0 || w.Sum.Kind != "" || w.Upload != "" || w.Number != 0 || w.New:
		return "a get has no body and no part"
	case r != nil && (r.From < 0 || r.Length < 1 || r.From+r.Length < 0):
		return "not a range"
	}
	return ""
}

func (w Want) problemOfBody() string {
	size, known := sumBytes[w.Sum.Kind]
	switch {
	case w.Range != nil:
		return "only a get has a range"
	case w.New && (w.Op != Put || w.Size == 0 || w.Sum.Kind != ""):
		return "only a put of 1 byte or more, without a checksum, can be for a new object"
	case w.Size < 0 || w.Size > MaxBody:
		return fmt.Sprintf("a body has 0 to %d bytes", int64(MaxBody))
	case !known || len(w.Sum.Value) != size:
		return "not a checksum"
	case w.Op == Part && w.Sum.Kind != "" && w.Sum.Kind != MD5:
		return "the checksum of a part is its MD5"
	}
	return ""
}

// CheckParts checks the parts of an upload and returns them sorted by number, or ErrUpload with the reason.
func CheckParts(parts []Uploaded) ([]Uploaded, error) {
	sorted := slices.SortedFunc(slices.Values(parts), func(a, b Uploaded) int { return a.Number - b.Number })
	if len(sorted) == 0 {
		return nil, fmt.Errorf("%w: no parts", ErrUpload)
	}
	for i, p := range sorted {
		if p.Number < 1 || p.Number > MaxParts || i > 0 && p.Number == sorted[i-1].Number {
			return nil, fmt.Errorf("%w: bad or duplicate part number %d", ErrUpload, p.Number)
		}
	}
	return sorted, nil
}

// Redact returns an HTTP client's error without the query of its URL, because net/http repeats the whole URL in the
// text. errors.Is still finds what the client's error wraps, such as a deadline.
func Redact(err error) error {
	var u *url.Error
	if !errors.As(err, &u) {
		return err
	}
	return fmt.Errorf("%s %s: %w", u.Op, withoutQuery(u.URL), u.Err)
}

func withoutQuery(rawURL string) string {
	clean, _, _ := strings.Cut(rawURL, "?")
	return clean
}

// Mux holds stores by scheme ("s3"), or by scheme and bucket ("s3://bucket") for buckets that need another store, such
// as those in another region or account. A Mux is itself a Store.
type Mux map[string]Store

func (m Mux) find(uri string) (string, error) {
	o, err := parse(uri)
	if err != nil {
		return "", err
	}
	for _, key := range []string{o.Scheme + "://" + o.Bucket, o.Scheme} {
		if _, ok := m[key]; ok {
			return key, nil
		}
	}
	return "", fmt.Errorf("%w for %s (known stores: %s)", ErrStore, o, strings.Join(slices.Sorted(maps.Keys(m)), ", "))
}

// Sign calls each store once, for all its wants.
func (m Mux) Sign(ctx context.Context, wants ...Want) ([]Grant, error) {
	places := map[string][]int{} // by store, indexes into wants
	for i, w := range wants {
		key, err := m.find(w.URI)
		if err != nil {
			return nil, err
		}
		places[key] = append(places[key], i)
	}
	grants := make([]Grant, len(wants))
	for _, key := range slices.Sorted(maps.Keys(places)) {
		theirs := make([]Want, 0, len(places[key]))
		for _, i := range places[key] {
			theirs = append(theirs, wants[i])
		}
		signed, err := m[key].Sign(ctx, theirs...)
		if err != nil {
			return nil, err
		}
		for j, i := range places[key] {
			grants[i] = signed[j]
		}
	}
	return grants, nil
}

// Begin begins an upload in the object's store.
func (m Mux) Begin(ctx context.Context, uri string) (string, error) {
	key, err := m.find(uri)
	if err != nil {
		return "", err
	}
	return m[key].Begin(ctx, uri)
}

// Complete completes an upload in the object's store.
func (m Mux) Complete(ctx context.Context, uri, upload string, parts []Uploaded) error {
	key, err := m.find(uri)
	if err != nil {
		return err
	}
	return m[key].Complete(ctx, uri, upload, parts)
}

// Abort ends an upload in the object's store.
func (m Mux) Abort(ctx context.Context, uri, upload string) error {
	key, err := m.find(uri)
	if err != nil {
		return err
	}
	return m[key].Abort(ctx, uri, upload)
}

// List lists in the prefix's store.
func (m Mux) List(ctx context.Context, prefix, after string) (Page, error) {
	key, err := m.find(prefix)
	if err != nil {
		return Page{}, err
	}
	return m[key].List(ctx, prefix, after)
}

// Remove removes an object from its store.
func (m Mux) Remove(ctx context.Context, uri string) error {
	key, err := m.find(uri)
	if err != nil {
		return err
	}
	return m[key].Remove(ctx, uri)
}

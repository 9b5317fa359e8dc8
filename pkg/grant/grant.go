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

// Errors of this package, wrapped with detail. No error, and no text of a Grant, has a signature or a key in it.
var (
	// ErrURI: not the URI of an object, or one that can be understood in two ways.
	ErrURI = errors.New("grant: bad URI")
	// ErrWant: a want that no store can grant, such as a part without an upload.
	ErrWant = errors.New("grant: bad want")
	// ErrOutside: an object outside of what the attempt may read or write.
	ErrOutside = errors.New("grant: outside of the scope")
	// ErrStore: no store for that scheme or bucket.
	ErrStore = errors.New("grant: no such store")
	// ErrUpload: no such multipart upload of that object (never begun, completed or aborted), or not these parts.
	ErrUpload = errors.New("grant: no such upload")
	// ErrNoBucket: no such bucket, container or folder, or none that the store may look into.
	ErrNoBucket = errors.New("grant: no such bucket, or none that may be read")
	// ErrCredentials: what the store would sign with has ended, or cannot be had.
	ErrCredentials = errors.New("grant: no valid credentials")
)

// What every store takes; the smallest of the clouds' limits.
const (
	MaxParts = 10_000     // of one upload (S3, Google)
	MinPart  = 5 << 20    // bytes of every part but the last (S3, Google); stores check it when the upload completes
	MaxBody  = 4000 << 20 // bytes of one put or part (Azure)
)

// Op is what a grant allows once or more often, until it expires.
type Op string

// The operations.
const (
	Get  Op = "get"  // read an object, or a range of it
	Put  Op = "put"  // write an object whole
	Part Op = "part" // write a part of a multipart upload
)

// Want is what one grant is asked for: one operation on one object.
type Want struct {
	Op  Op            `json:"op"`
	URI string        `json:"uri"`           // of the object; see Parse
	For time.Duration `json:"for,omitempty"` // how long; a store gives less where its cloud or its credentials do

	// get: these bytes and no others; nil for the whole object or any range that the client asks for
	Range *Range `json:"range,omitempty"`
	Size  int64  `json:"size,omitempty"` // put, part: the exact length of the body in bytes
	// put: what the body must be; part: the same, MD5 only. The zero Sum leaves it open
	Sum Sum `json:"sum,omitzero"`

	Upload string `json:"upload,omitempty"` // part: of which upload, as Begin returned it
	Number int    `json:"number,omitempty"` // part: from 1 to MaxParts
}

// Range is bytes of an object.
type Range struct {
	From   int64 `json:"from"`
	Length int64 `json:"length"`
}

// Header is the range as an HTTP header has it.
func (r Range) Header() string { return fmt.Sprintf("bytes=%d-%d", r.From, r.From+r.Length-1) }

// Sum is a checksum that the store compares with the bytes that arrive.
type Sum struct {
	Kind  SumKind `json:"kind"`
	Value []byte  `json:"value"`
}

// IsZero says that no checksum is given.
func (s Sum) IsZero() bool { return s.Kind == "" && len(s.Value) == 0 }

// SumKind is the algorithm of a Sum.
type SumKind string

// The algorithms. MD5 is the one that every store has; one that a cloud does not check is errors.ErrUnsupported.
const (
	MD5    SumKind = "md5"
	SHA256 SumKind = "sha256"
	CRC32C SumKind = "crc32c" // Castagnoli, big-endian
)

// Grant is an HTTP request that its holder may send until it expires. Whoever has the URL has the right: it goes over
// TLS and into no log, which its String, GoString and LogValue keep to.
type Grant struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Header  map[string]string `json:"header,omitempty"` // to be sent as they are; the store refuses other values
	Expires time.Time         `json:"expires"`
}

// Request is the granted request with a body of size bytes; a get has none.
func (g Grant) Request(ctx context.Context, body io.Reader, size int64) (*http.Request, error) {
	if size == 0 {
		body = http.NoBody // a reader of nothing would be sent in chunks, without a length
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

// String is the grant without what makes it one.
func (g Grant) String() string {
	return fmt.Sprintf("%s %s until %s", g.Method, withoutQuery(g.URL), g.Expires.UTC().Format(time.RFC3339))
}

// GoString is String, for %#v.
func (g Grant) GoString() string { return g.String() }

// LogValue is String, for slog.
func (g Grant) LogValue() slog.Value { return slog.StringValue(g.String()) }

// Signer signs requests.
type Signer interface {
	// Sign returns a grant for each want, in their order, or an error and none. It asks the cloud nothing (but for
	// credentials that are due for renewal), so that a thousand cost what computing them costs.
	Sign(ctx context.Context, wants ...Want) ([]Grant, error)
}

// Store signs requests for objects of one cloud. The rest it does itself, with the broker's own rights: it begins and
// ends multipart uploads (see the package's comment), lists and removes. Its methods are safe for concurrent use.
type Store interface {
	Signer
	// Begin begins an upload of the object in parts and returns its name, of printable ASCII.
	Begin(ctx context.Context, uri string) (upload string, err error)
	// Complete makes the parts the object, in the order of their numbers, all at once. ErrUpload if there is no such
	// upload, or a part is missing or is not the one that was said.
	Complete(ctx context.Context, uri, upload string, parts []Uploaded) error
	// Abort ends an upload and drops its parts. One that is not there is no error: a repeated Abort does nothing.
	Abort(ctx context.Context, uri, upload string) error
	// List returns a page of the objects below a prefix, which is the URI of a bucket or one that ends in a slash. The
	// first page is after ""; each page names what the next one is after. Keys that end in a slash, which stand for
	// folders, are left out; one that no URI can name fails the list with ErrURI. Below a prefix that is not there lies
	// nothing; a bucket that is not there, or may not be read, is ErrNoBucket.
	List(ctx context.Context, prefix, after string) (Page, error)
	// Remove removes an object. One that is not there is no error.
	Remove(ctx context.Context, uri string) error
}

// Page is a part of a list.
type Page struct {
	Objects []Listed `json:"objects"`
	Next    string   `json:"next,omitempty"` // what the next page is after; empty after the last
}

// Listed is an object of a list.
type Listed struct {
	URI  string `json:"uri"`
	Size int64  `json:"size"` // bytes
}

// PageSize is how many objects a page has at most.
const PageSize = 1000

// Uploaded is a part that a store has taken.
type Uploaded struct {
	Number int    `json:"number"`
	ETag   string `json:"etag"` // the ETag header of the answer to the part's request, as it came
}

// CheckOf is Check for a driver that has the objects of one scheme alone: others are ErrStore. Drivers call it first.
func (w Want) CheckOf(scheme string) (Object, error) {
	o, err := w.Check()
	if err != nil {
		return Object{}, err
	}
	return o.of(scheme)
}

// Check reads the want's URI and says with ErrURI or ErrWant what is wrong with it.
func (w Want) Check() (Object, error) {
	o, err := Parse(w.URI)
	if err != nil {
		return Object{}, err
	}
	if why := w.wrong(); why != "" {
		return Object{}, fmt.Errorf("%w: %s of %s: %s", ErrWant, w.Op, o, why)
	}
	return o, nil
}

var sumBytes = map[SumKind]int{MD5: 16, SHA256: 32, CRC32C: 4, "": 0}

func (w Want) wrong() string {
	switch {
	case w.For < time.Second:
		return "shorter than a second"
	case w.Op == Get:
		return w.wrongGet()
	case w.Op == Put && (w.Upload != "" || w.Number != 0):
		return "only a part has an upload and a number"
	case w.Op == Part && (w.Upload == "" || w.Number < 1 || w.Number > MaxParts):
		return fmt.Sprintf("a part has an upload and a number from 1 to %d", MaxParts)
	case w.Op == Put || w.Op == Part:
		return w.wrongBody()
	}
	return "not an operation"
}

func (w Want) wrongGet() string {
	switch r := w.Range; {
	case w.Size != 0 || w.Sum.Kind != "" || w.Upload != "" || w.Number != 0:
		return "a get has no body and no part"
	case r != nil && (r.From < 0 || r.Length < 1 || r.From+r.Length < 0):
		return "not a range"
	}
	return ""
}

func (w Want) wrongBody() string {
	size, known := sumBytes[w.Sum.Kind]
	switch {
	case w.Range != nil:
		return "only a get has a range"
	case w.Size < 0 || w.Size > MaxBody:
		return fmt.Sprintf("a body has 0 to %d bytes", int64(MaxBody))
	case !known || len(w.Sum.Value) != size:
		return "not a checksum"
	case w.Op == Part && w.Sum.Kind != "" && w.Sum.Kind != MD5:
		return "the checksum of a part is its MD5"
	}
	return ""
}

// CheckParts says with ErrUpload what is wrong with the parts of an upload, and returns them by number.
func CheckParts(parts []Uploaded) ([]Uploaded, error) {
	sorted := slices.SortedFunc(slices.Values(parts), func(a, b Uploaded) int { return a.Number - b.Number })
	if len(sorted) == 0 {
		return nil, fmt.Errorf("%w: no parts", ErrUpload)
	}
	for i, p := range sorted {
		if p.Number < 1 || p.Number > MaxParts || i > 0 && p.Number == sorted[i-1].Number {
			return nil, fmt.Errorf("%w: part %d", ErrUpload, p.Number)
		}
	}
	return sorted, nil
}

// Redact returns an error of an HTTP client without the query of the URL in its text: net/http repeats the whole URL.
// What the client's error wraps, such as a deadline, is still found by errors.Is.
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

// Mux is stores by scheme ("s3"), or by scheme and bucket ("s3://bucket") for those held otherwise, such as in another
// region or account. It is itself a Store.
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
	return "", fmt.Errorf("%w for %s (there is: %s)", ErrStore, o, strings.Join(slices.Sorted(maps.Keys(m)), ", "))
}

// Sign asks each store once for all that is its.
func (m Mux) Sign(ctx context.Context, wants ...Want) ([]Grant, error) {
	places := map[string][]int{} // by store, where in wants
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

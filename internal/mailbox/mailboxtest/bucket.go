// Package mailboxtest has helpers for tests of mailboxes: a bucket in memory with faults, and the conformance suite
// of carriers, which HTTP and every bucket pass.
package mailboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Bucket is a bucket in memory. It is a grant.Store, and an http.RoundTripper for the requests that it signs.
type Bucket struct {
	mu      sync.Mutex
	objects map[string]stored // by URI
	grants  map[string]signed // by URL
	past    map[string][]byte // all objects that were ever created under a signed URL for a new object
	refuses bool
	loses   func(method, uri string) bool
	late    func(uri string) time.Duration
	lasts   time.Duration
	calls   int
}

type stored struct {
	body    []byte
	visible time.Time // in lists, and for reading
}

type signed struct {
	want    grant.Want
	expires time.Time
}

// NewBucket returns an empty bucket.
func NewBucket() *Bucket {
	return &Bucket{objects: map[string]stored{}, grants: map[string]signed{}, past: map[string][]byte{}}
}

// Refuse makes the bucket refuse every request, or stop doing so.
func (b *Bucket) Refuse(refuses bool) { b.set(func() { b.refuses = refuses }) }

// Lose makes the bucket lose the answers to the requests for which lost returns true, after it has obeyed them.
func (b *Bucket) Lose(lost func(method, uri string) bool) { b.set(func() { b.loses = lost }) }

// Delay makes new objects appear late.
func (b *Bucket) Delay(late func(uri string) time.Duration) { b.set(func() { b.late = late }) }

// Limit makes signatures valid for at most this long.
func (b *Bucket) Limit(lasts time.Duration) { b.set(func() { b.lasts = lasts }) }

func (b *Bucket) set(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

// Repeat puts again all objects that were ever put as new ones, like a network that delivers requests twice and late.
func (b *Bucket) Repeat() {
	b.set(func() {
		for uri, body := range b.past {
			b.objects[uri] = stored{body: body}
		}
	})
}

// Names returns the URIs of all objects, sorted.
func (b *Bucket) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.objects))
}

// Body returns the content of an object.
func (b *Bucket) Body(uri string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.objects[uri].body
}

// Write stores an object with the owner's rights.
func (b *Bucket) Write(uri string, body []byte) {
	b.set(func() { b.objects[uri] = stored{body: body} })
}

// Calls returns how many requests were made so far.
func (b *Bucket) Calls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

var errRefused = errors.New("the bucket refuses requests")

// Sign implements grant.Signer.
func (b *Bucket) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var grants []grant.Grant
	for _, w := range wants {
		if _, err := w.Check(); err != nil {
			return nil, err
		}
		g := grant.Grant{Method: http.MethodGet, URL: "https://bucket.invalid/" + rand.Text()}
		if w.Op == grant.Put {
			g.Method = http.MethodPut
		}
		if b.lasts > 0 {
			w.For = min(w.For, b.lasts)
		}
		g.Expires = time.Now().Add(w.For)
		b.grants[g.URL] = signed{w, g.Expires}
		grants = append(grants, g)
	}
	return grants, nil
}

// RoundTrip implements http.RoundTripper.
func (b *Bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	s, ok := b.grants[r.URL.String()]
	status, content := http.StatusForbidden, []byte(nil)
	switch {
	case b.refuses:
		status = http.StatusServiceUnavailable
	case !ok || time.Now().After(s.expires):
	case r.Method == http.MethodGet && s.want.Op == grant.Get:
		status, content = b.read(s.want.URI)
	case r.Method == http.MethodPut && s.want.Op == grant.Put:
		status = b.write(s.want, body)
	}
	if b.loses != nil && b.loses(r.Method, s.want.URI) {
		return nil, errors.New("the connection was reset")
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(content))}, nil
}

func (b *Bucket) read(uri string) (status int, body []byte) {
	o, ok := b.objects[uri]
	if !ok || time.Now().Before(o.visible) {
		return http.StatusNotFound, nil
	}
	return http.StatusOK, o.body
}

func (b *Bucket) write(w grant.Want, body []byte) (status int) {
	_, exists := b.objects[w.URI]
	switch {
	case w.New && exists:
		return http.StatusPreconditionFailed
	case w.New && int64(len(body)) > w.Size || !w.New && int64(len(body)) != w.Size:
		return http.StatusForbidden
	}
	o := stored{body: body}
	if b.late != nil {
		o.visible = time.Now().Add(b.late(w.URI))
	}
	b.objects[w.URI] = o
	if w.New {
		b.past[w.URI] = body
	}
	return http.StatusOK
}

// List implements grant.Store.
func (b *Bucket) List(ctx context.Context, prefix, _ string) (page grant.Page, err error) {
	if err := ctx.Err(); err != nil {
		return page, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.refuses {
		return page, errRefused
	}
	for _, uri := range slices.Sorted(maps.Keys(b.objects)) {
		if o := b.objects[uri]; strings.HasPrefix(uri, prefix) && !time.Now().Before(o.visible) {
			page.Objects = append(page.Objects, grant.Listed{URI: uri, Size: int64(len(o.body))})
		}
	}
	return page, nil
}

// Remove implements grant.Store.
func (b *Bucket) Remove(ctx context.Context, uri string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.refuses {
		return errRefused
	}
	delete(b.objects, uri)
	return nil
}

// Begin implements grant.Store: there are no uploads in parts.
func (b *Bucket) Begin(context.Context, string) (string, error) { return "", errors.ErrUnsupported }

// Complete implements grant.Store.
func (b *Bucket) Complete(context.Context, string, string, []grant.Uploaded) error {
	return errors.ErrUnsupported
}

// Abort implements grant.Store.
func (b *Bucket) Abort(context.Context, string, string) error { return errors.ErrUnsupported }

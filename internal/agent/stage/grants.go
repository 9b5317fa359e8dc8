package stage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Grants gives a transfer access to objects. Both grant.Store and the client of the broker's API implement it.
type Grants interface {
	grant.Signer
	// List returns a page of the objects below a prefix that ends in a slash, or below a bucket.
	List(ctx context.Context, prefix, after string) (grant.Page, error)
	Begin(ctx context.Context, uri string) (upload string, err error)
	Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error
	Abort(ctx context.Context, uri, upload string) error
}

// statusError is an unsuccessful answer of a store.
type statusError struct {
	uri    string
	status int
	body   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s %s", e.uri, e.status, http.StatusText(e.status), e.body)
}

// refused reports whether the store did not accept the grant. Google answers 400 to an expired one.
func (e *statusError) refused() bool {
	return e.status == http.StatusForbidden || e.status == http.StatusBadRequest || e.status == http.StatusUnauthorized
}

// granted is a want and its grant, which is renewed when it expires.
type granted struct {
	want  grant.Want
	grant grant.Grant
}

// grantLifetime is the requested lifetime of grants; the granter may shorten it.
const grantLifetime = time.Hour

// margin is the minimum remaining lifetime of a grant at the start of a request.
const margin = 5 * time.Second

// sign gets grants for all wants in one call.
func (t Transfer) sign(ctx context.Context, list []*granted) error {
	wants := make([]grant.Want, len(list))
	for i, g := range list {
		g.want.For = grantLifetime
		wants[i] = g.want
	}
	signed, err := t.Grants.Sign(ctx, wants...)
	if err == nil && len(signed) != len(wants) {
		err = fmt.Errorf("%d grants for %d wants", len(signed), len(wants))
	}
	if err != nil {
		return err
	}
	for i, g := range list {
		g.grant = signed[i]
	}
	return nil
}

// exchange is one granted request, and the function that handles its response.
type exchange struct {
	*granted
	rang *grant.Range              // of a get: only these bytes; nil is all
	body func() (io.Reader, error) // of a put: opens the body at its beginning
	take func(*http.Response) error
}

// do sends a request until it succeeds, all tries are used up, or another try cannot help. It renews an expired
// grant. If the store refuses a new grant too, the error is final.
func (t Transfer) do(ctx context.Context, x exchange) error {
	renewed := false
	return t.retry(ctx, isTemporary, func() error {
		if x.grant.URL == "" || time.Until(x.grant.Expires) < margin {
			if err := t.sign(ctx, []*granted{x.granted}); err != nil {
				return err
			}
		}
		err := t.once(ctx, x)
		var status *statusError
		if errors.As(err, &status) && status.refused() {
			if renewed {
				return backoff.Permanent(err)
			}
			x.grant, renewed = grant.Grant{}, true
		}
		return err
	})
}

// The timeout of a request is a fixed time plus the time for its size at a low speed. A request for a whole object,
// whose size may be unknown, only ends if no data arrives for some time.
const (
	beginWithin       = time.Minute
	minBytesPerSecond = 32 << 10 // bytes per second
)

// once sends a request once. Its errors contain no signatures.
func (t Transfer) once(ctx context.Context, x exchange) error {
	size := x.want.Size
	if x.rang != nil {
		size = x.rang.Length
	}
	var watch *Watch
	if x.want.Op == grant.Get {
		ctx, watch = NewWatch(ctx, t.Still)
		defer watch.Stop()
	}
	if x.want.Op != grant.Get || x.rang != nil {
		limit, cancel := context.WithTimeout(ctx, beginWithin+time.Duration(size/minBytesPerSecond)*time.Second)
		defer cancel()
		ctx = limit
	}
	var body io.Reader
	if x.body != nil && size > 0 {
		var err error
		if body, err = x.body(); err != nil {
			return err
		}
	}
	count := t.count(x.want.URI, &body)
	req, err := x.grant.Request(ctx, body, x.want.Size)
	if err != nil {
		return err
	}
	if x.rang != nil {
		req.Header.Set("Range", x.rang.Header())
	}
	if x.want.Op == grant.Get && strings.HasPrefix(x.want.URI, "gs://") {
		// Otherwise Google decompresses objects stored with Content-Encoding: gzip, and sends no length or ranges.
		req.Header.Set("Accept-Encoding", "gzip")
	}
	defer count.report()
	resp, err := t.client().Do(req)
	if err != nil {
		return watch.Err(grant.Redact(err))
	}
	defer resp.Body.Close() //nolint:errcheck // fully read or abandoned
	resp.Body = count.answer(watch.Body(resp.Body))
	if resp.StatusCode >= http.StatusMultipleChoices {
		words, _ := io.ReadAll(io.LimitReader(resp.Body, maxWords)) // for the message; a part is enough
		return &statusError{uri: x.want.URI, status: resp.StatusCode, body: errorCode(words)}
	}
	if x.take == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxWords)) // so that the connection can be reused
		return nil
	}
	return grant.Redact(x.take(resp))
}

// maxWords is the maximum number of bytes read of an answer whose content is not needed.
const maxWords = 4 << 10

// errorCode returns the code in a store's XML error. The rest of the answer may contain what was signed.
func errorCode(body []byte) string {
	_, code, _ := bytes.Cut(body, []byte("<Code>"))
	code, _, found := bytes.Cut(code, []byte("</Code>"))
	if !found {
		return ""
	}
	return strings.ToValidUTF8(string(code), "")
}

// client returns the HTTP client. It does not request compression, so that it gets the stored bytes, and does not
// follow redirects.
func (t Transfer) client() *http.Client {
	if t.Client != nil {
		return t.Client
	}
	return defaultClient()
}

var defaultClient = sync.OnceValue(func() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.MaxIdleConnsPerHost = 4 * defaultParallel
	transport.ResponseHeaderTimeout = beginWithin
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
})

// awayFor is the time for which a store may be unreachable. Hours of a task's work must not be lost because of a
// minute.
const awayFor = 5 * time.Minute

// retry calls do again, with growing pauses, while it fails with errors for which passing returns true.
func (t Transfer) retry(ctx context.Context, passing func(error) bool, do func() error) error {
	tries := cmp.Or(max(t.Tries, 0), defaultTries)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 10*time.Second
	var since time.Time // of the first failure
	failed := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err == nil {
			return struct{}{}, nil
		}
		if failed++; failed == 1 {
			since = time.Now()
		}
		more := failed < tries || t.Tries <= 0 && isUnavailable(err) && time.Since(since) < awayFor
		if ctx.Err() != nil || !passing(err) || !more {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0)) // one try may take hours
	return err
}

// isUnavailable reports whether err means that the store did not answer or is temporarily unavailable.
func isUnavailable(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return isBusy(status) && status.status != http.StatusNotImplemented &&
			status.status != http.StatusInsufficientStorage
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, ErrStalled) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// NoSpace reports whether a store refused to write because its disk is full.
func NoSpace(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusInsufficientStorage
}

// isBusy reports whether an answer means that the store is temporarily unavailable.
func isBusy(e *statusError) bool {
	return e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests ||
		e.status == http.StatusRequestTimeout
}

// isTemporary reports whether a retry can help. It cannot if the error was found locally, or if the store or the
// granter clearly refused.
func isTemporary(err error) bool {
	for _, final := range []error{ErrLeaves, ErrChanging, ErrTooMany, ErrNotFound, fs.ErrNotExist, fs.ErrPermission,
		fs.ErrExist, syscall.ENOSPC, context.Canceled, ErrRefused, grant.ErrOutside, grant.ErrURI, grant.ErrWant,
		grant.ErrStore, grant.ErrNoBucket, grant.ErrCredentials, errors.ErrUnsupported} {
		if errors.Is(err, final) {
			return false
		}
	}
	var status *statusError
	if errors.As(err, &status) {
		return status.refused() || isBusy(status)
	}
	return true // for example the timeout of a request
}

// Final reports whether another try to move the same data will fail again, because of the store's refusal or of the
// data.
func Final(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return !isBusy(status)
	}
	return err != nil && !isTemporary(err) && !errors.Is(err, ErrChanging) && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, context.Canceled)
}

// missing reports whether the object does not exist.
func missing(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusNotFound
}

// contentRange parses the header of a partial answer: "bytes 0-9/42".
func contentRange(h http.Header) (from, total int64, err error) {
	text, _ := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	span, whole, ok := strings.Cut(text, "/")
	first, _, ok2 := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	total, err2 := strconv.ParseInt(whole, 10, 64)
	if !ok || !ok2 || err1 != nil || err2 != nil || from < 0 || total < 0 {
		return 0, 0, fmt.Errorf("%w: Content-Range %q", ErrCorrupt, h.Get("Content-Range"))
	}
	return from, total, nil
}

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

// Grants is what lets a transfer reach objects. A grant.Store does, and so does the broker's API.
type Grants interface {
	grant.Signer
	// List returns a page of the objects below a prefix that ends in a slash, or below a bucket.
	List(ctx context.Context, prefix, after string) (grant.Page, error)
	Begin(ctx context.Context, uri string) (upload string, err error)
	Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error
	Abort(ctx context.Context, uri, upload string) error
}

// statusError is an answer that is not the object.
type statusError struct {
	uri    string
	status int
	body   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s %s", e.uri, e.status, http.StatusText(e.status), e.body)
}

// refused says whether a grant is not good, or no longer: Google answers 400 to one that has expired.
func (e *statusError) refused() bool {
	return e.status == http.StatusForbidden || e.status == http.StatusBadRequest || e.status == http.StatusUnauthorized
}

// granted is a want and the grant for it, which is renewed when it has ended.
type granted struct {
	want  grant.Want
	grant grant.Grant
}

// lasting is what is asked for; who grants may give less.
const lasting = time.Hour

// margin is how long a grant has to be good for, for a request to be begun with it.
const margin = 5 * time.Second

// sign has wants granted, as many at once as one may.
func (t Transfer) sign(ctx context.Context, list []*granted) error {
	wants := make([]grant.Want, len(list))
	for i, g := range list {
		g.want.For = lasting
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

// exchange is one granted request, and what is done with its answer.
type exchange struct {
	*granted
	rang *grant.Range              // of a get: only these bytes
	body func() (io.Reader, error) // of a put, from its beginning
	take func(*http.Response) error
}

// do sends a request until it succeeds, the tries are used up, or trying again is of no use. A grant that has ended is
// renewed; one that is refused though it is new is refused for good.
func (t Transfer) do(ctx context.Context, x exchange) error {
	renewed := false
	return t.retry(ctx, passing, func() error {
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

// A request may take so long: some time to begin, and then as if it came slowly. What is slower has stopped. Of a whole
// object, whose size may not be known, some has to come all the time.
const (
	beginWithin = time.Minute
	leastPace   = 32 << 10 // bytes a second
)

// once sends a request once. Errors have no signature in them.
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
		limit, cancel := context.WithTimeout(ctx, beginWithin+time.Duration(size/leastPace)*time.Second)
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
		// Else Google unpacks what was stored with Content-Encoding: gzip, and tells neither its length nor ranges.
		req.Header.Set("Accept-Encoding", "gzip")
	}
	defer count.tell()
	resp, err := t.client().Do(req)
	if err != nil {
		return watch.Err(grant.Redact(err))
	}
	defer resp.Body.Close() //nolint:errcheck // read, or given up
	resp.Body = count.answer(watch.Body(resp.Body))
	if resp.StatusCode >= http.StatusMultipleChoices {
		words, _ := io.ReadAll(io.LimitReader(resp.Body, maxWords)) // for people; less will do
		return &statusError{uri: x.want.URI, status: resp.StatusCode, body: errorCode(words)}
	}
	if x.take == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxWords)) // for the connection's next request
		return nil
	}
	return grant.Redact(x.take(resp))
}

// maxWords bounds what is read of an answer that nobody asked for, bytes.
const maxWords = 4 << 10

// errorCode is what a store calls an error, in its XML. The rest of such an answer may repeat what was signed.
func errorCode(body []byte) string {
	_, code, _ := bytes.Cut(body, []byte("<Code>"))
	code, _, found := bytes.Cut(code, []byte("</Code>"))
	if !found {
		return ""
	}
	return strings.ToValidUTF8(string(code), "")
}

// client sends without asking for compression: what comes is what lies there. It follows nobody elsewhere.
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

// awayFor is how long a store, or the way to it, may be away: what a task has made in hours is not lost for a minute.
const awayFor = 5 * time.Minute

// retry does what may fail for a moment again, with a growing pause. passing says of an error that it may.
func (t Transfer) retry(ctx context.Context, passing func(error) bool, do func() error) error {
	tries := cmp.Or(max(t.Tries, 0), defaultTries)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 10*time.Second
	var since time.Time // it first failed
	failed := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err == nil {
			return struct{}{}, nil
		}
		if failed++; failed == 1 {
			since = time.Now()
		}
		more := failed < tries || t.Tries <= 0 && away(err) && time.Since(since) < awayFor
		if ctx.Err() != nil || !passing(err) || !more {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0)) // what is tried again may take hours
	return err
}

// away says of an error that the store did not answer, or not now: not that it has answered something else.
func away(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return busy(status) && status.status != http.StatusNotImplemented &&
			status.status != http.StatusInsufficientStorage
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, ErrStalled) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// busy says of an answer that it is not the store's no.
func busy(e *statusError) bool {
	return e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests ||
		e.status == http.StatusRequestTimeout
}

// passing says whether trying again can help: not against our own findings, nor a clear no of the store or of who
// grants.
func passing(err error) bool {
	for _, final := range []error{ErrLeaves, ErrChanging, ErrTooMany, ErrNotFound, fs.ErrNotExist, fs.ErrPermission,
		fs.ErrExist, syscall.ENOSPC, context.Canceled, ErrRefused, grant.ErrOutside, grant.ErrURI, grant.ErrWant,
		grant.ErrStore, grant.ErrNoBucket, grant.ErrCredentials, errors.ErrUnsupported} {
		if errors.Is(err, final) {
			return false
		}
	}
	var status *statusError
	if errors.As(err, &status) {
		return status.refused() || busy(status)
	}
	return true // be it that a request's own deadline has passed
}

// Final says whether an error of a transfer is the store's no, or of what is moved itself: to move it again as it is
// will fail again.
func Final(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return !busy(status)
	}
	return err != nil && !passing(err) && !errors.Is(err, ErrChanging) && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, context.Canceled)
}

// missing says that there is no such object.
func missing(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusNotFound
}

// contentRange reads the header of a part: "bytes 0-9/42".
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

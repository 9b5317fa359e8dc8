package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/tunnel"
)

// maxAnswer is the maximum number of bytes read of an answer.
const maxAnswer = 16 << 20

// callTimeout is the maximum time of one try of a request, in addition to the time that the broker may hold it.
const callTimeout = 30 * time.Second

// client calls the broker's API and retries while the broker is unreachable.
type client struct {
	http     *http.Client
	endpoint string
	token    atomic.Pointer[string]
	patience time.Duration
	heard    atomic.Pointer[time.Time] // when the broker last accepted a call
}

func newClient(cfg Config) *client {
	c := cfg.HTTPClient
	if c == nil {
		c = &http.Client{}
	}
	follow := *c
	// The API does not redirect; the token must not be sent to another server.
	follow.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out := &client{http: &follow, endpoint: strings.TrimSuffix(cfg.Endpoint, "/"), patience: cfg.Patience}
	out.token.Store(&cfg.Token)
	out.accepted()
	return out
}

// request is one call of the API.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	timeout      time.Duration
	answer       any            // variable that receives the decoded answer; nil if the answer has no content
	raw          *[]byte        // receives the undecoded answer instead; may be nil
	pause        *time.Duration // receives the answer's Retry-After, if there is one; may be nil
}

// maxPause is the maximum pause that an answer can request.
const maxPause = time.Minute

// Maximum of the pause between two tries of a call. The actual pauses are random, between half and one and a half
// times the nominal pause, so that agents do not call at the same moment after an outage.
const maxBackOff = 15 * time.Second

// hello registers the node. It returns the node's first command if the broker has one. Otherwise it returns None and
// the time to wait before the first poll.
func (c *client) hello(ctx context.Context, h wire.Hello) (w wire.Work, err error) {
	body, err := json.Marshal(h)
	if err != nil {
		return w, err
	}
	var pause time.Duration
	err = c.retry(ctx, request{
		method: http.MethodPost, path: wire.PathHello, body: body, contentType: "application/json",
		timeout: callTimeout, answer: &w, pause: &pause,
	})
	c.renew(w)
	if w.Seq == 0 {
		w = wire.Work{Command: wire.None, Pause: pause}
	}
	return w, err
}

func (c *client) report(ctx context.Context, r wire.Report) error {
	return c.ask(ctx, wire.PathReport, r, nil)
}

// ask posts v and decodes the response into answer, unless answer is nil.
func (c *client) ask(ctx context.Context, path string, v, answer any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.retry(ctx, request{method: http.MethodPost, path: path, body: body, contentType: "application/json",
		timeout: callTimeout, answer: answer})
}

// work returns the newest command after seen, or None after wait. It also returns early if there are more visits than
// the agent knows.
func (c *client) work(ctx context.Context, seen, visits int, wait time.Duration) (wire.Work, error) {
	q := url.Values{"seen": {strconv.Itoa(seen)}, "visits": {strconv.Itoa(visits)}, "wait": {wait.String()}}
	var w wire.Work
	err := c.retry(ctx, request{method: http.MethodGet, path: wire.PathWork, query: q, timeout: wait + callTimeout,
		answer: &w})
	c.renew(w)
	return w, err
}

// renew uses the token of an answer, if it has one, for all later calls.
func (c *client) renew(w wire.Work) {
	if w.Token != "" {
		c.token.Store(&w.Token)
	}
}

// logs sends a piece of an attempt's log. If the broker wants the log from another offset, it returns a *resumeError.
func (c *client) logs(ctx context.Context, attempt string, offset int64, piece []byte, times string) error {
	q := url.Values{"attempt": {attempt}, "offset": {strconv.FormatInt(offset, 10)}}
	if times != "" {
		q.Set("times", times)
	}
	return c.retry(ctx, request{
		method: http.MethodPost, path: wire.PathLogs, query: q, body: piece, contentType: "application/octet-stream",
		timeout: callTimeout,
	})
}

// resumeError contains the offset from which the broker wants a log.
type resumeError struct{ offset int64 }

func (e *resumeError) Error() string {
	return "agent: the broker wants the log from offset " + strconv.FormatInt(e.offset, 10)
}

// accepted notes that the broker has accepted a call.
func (c *client) accepted() {
	now := time.Now()
	c.heard.Store(&now)
}

// retry repeats a call until it is accepted, until it fails with an error that isFinal accepts, or until patience
// ends. Patience ends when the broker has accepted no call for that long since this call began, or when this call has
// failed for twice as long. Each pause is at least the Retry-After of a refusal.
func (c *client) retry(ctx context.Context, r request) error {
	growing := backoff.NewExponentialBackOff()
	growing.InitialInterval, growing.MaxInterval = 50*time.Millisecond, min(maxBackOff, c.patience/40)
	pause := &atLeast{BackOff: growing}
	final, began := false, time.Now()
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		var busy *busyError
		err := c.call(ctx, r)
		if pause.least = 0; errors.As(err, &busy) {
			pause.least = busy.pause
		}
		if err == nil {
			if r.path != wire.PathLogs { // which is no sign of life for the broker either
				c.accepted()
			}
			return struct{}{}, nil
		}
		final = isFinal(err)
		if last := *c.heard.Load(); final || time.Since(last) > c.patience && time.Since(began) > c.patience {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(2*c.patience))
	if err != nil && !final && ctx.Err() == nil {
		err = fmt.Errorf("%w for %v: %w", ErrUnreachable, c.patience, err)
	}
	return err
}

// atLeast returns a back-off whose pauses exceed least by up to a quarter.
type atLeast struct {
	backoff.BackOff
	least time.Duration
}

// NextBackOff implements backoff.BackOff.
func (b *atLeast) NextBackOff() time.Duration {
	least := b.least + time.Duration(rand.Float64()*float64(b.least)/4) //nolint:gosec // no secret
	return max(b.BackOff.NextBackOff(), least)
}

// busyError is an answer that requests a pause before the next try.
type busyError struct {
	error
	pause time.Duration
}

func (e *busyError) Unwrap() error { return e.error }

// isFinal reports whether err is final: another try would not help.
func isFinal(err error) bool {
	var resume *resumeError
	var denied *deniedError
	return errors.Is(err, ErrFinished) || errors.Is(err, ErrRefused) || errors.Is(err, ErrConfig) ||
		errors.As(err, &resume) || errors.As(err, &denied)
}

// call makes a call once.
func (c *client) call(ctx context.Context, r request) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	target := c.endpoint + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	req.Header.Set("Authorization", "Bearer "+*c.token.Load())
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	err = checkResponse(resp, r.path, body)
	if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); bad == nil {
		pause := min(time.Duration(max(seconds, 0))*time.Second, maxPause)
		switch {
		case err == nil && r.pause != nil:
			*r.pause = pause
		case err != nil:
			err = &busyError{err, pause}
		}
	}
	if r.raw != nil {
		*r.raw = body
	}
	if err != nil || r.answer == nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, r.answer); err != nil {
		return fmt.Errorf("agent: %s: %w", r.path, err)
	}
	return nil
}

// checkResponse returns an error for an answer that is not a success, otherwise nil.
func checkResponse(resp *http.Response, path string, answer []byte) error {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w: %s: %s", ErrRefused, path, resp.Status)
	case code == http.StatusGone:
		return fmt.Errorf("%w: %s", ErrFinished, path)
	case code == http.StatusConflict && (path == wire.PathLogs || path == wire.PathReport):
		if offset, err := strconv.ParseInt(resp.Header.Get(wire.HeaderOffset), 10, 64); err == nil && offset >= 0 {
			return &resumeError{offset}
		}
	case strings.HasPrefix(path, wire.PathVisits):
		return checkVisitResponse(resp, path, answer)
	case code == http.StatusNotFound || code == http.StatusConflict || code == http.StatusUnprocessableEntity ||
		code == http.StatusNotImplemented:
		switch path {
		case wire.PathGrants, wire.PathList, wire.PathUploads, wire.PathPrune, wire.PathMounts:
			return denial(code, answer)
		}
	}
	return fmt.Errorf("agent: %s: %s: %.200q", path, resp.Status, answer)
}

// checkVisitResponse returns the error for an unsuccessful answer to a call that belongs to a visit.
func checkVisitResponse(resp *http.Response, path string, answer []byte) error {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusNotImplemented:
		return fmt.Errorf("agent: %s: %w", path, tunnel.ErrEnded)
	case http.StatusTooManyRequests:
		return tunnel.ErrBusy
	}
	return fmt.Errorf("agent: %s: %s: %.200q", path, resp.Status, answer)
}

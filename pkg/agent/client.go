package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/tunnel"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// callTimeout bounds one try of a request, beside what the broker was asked to hold it.
const callTimeout = 30 * time.Second

// client calls the broker's API, and calls again while it is away.
type client struct {
	http     *http.Client
	endpoint string
	token    atomic.Pointer[string]
	patience time.Duration
}

func newClient(cfg Config) *client {
	c := cfg.HTTPClient
	if c == nil {
		c = &http.Client{}
	}
	follow := *c
	// The API does not redirect; the token goes to nobody else.
	follow.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out := &client{http: &follow, endpoint: strings.TrimSuffix(cfg.Endpoint, "/"), patience: cfg.Patience}
	out.token.Store(&cfg.Token)
	return out
}

// request is one call of the API.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	timeout      time.Duration
	answer       any            // what the answer is decoded into; nil when there is nothing in it
	raw          *[]byte        // takes the answer as it stands, instead; may be nil
	pause        *time.Duration // takes the answer's Retry-After, if it has one; may be nil
}

// maxPause is the longest that an answer may have an agent wait.
const maxPause = time.Minute

// hello registers the node. It returns its first command, where the broker has one, or none and how long to wait before
// asking for it.
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

// ask posts v and decodes the answer, unless that is nil.
func (c *client) ask(ctx context.Context, path string, v, answer any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.retry(ctx, request{method: http.MethodPost, path: path, body: body, contentType: "application/json",
		timeout: callTimeout, answer: answer})
}

// work returns the newest command after seen, or None after wait.
// It ends, too, when there are more visits than the agent knows.
func (c *client) work(ctx context.Context, seen, visits int, wait time.Duration) (wire.Work, error) {
	q := url.Values{"seen": {strconv.Itoa(seen)}, "visits": {strconv.Itoa(visits)}, "wait": {wait.String()}}
	var w wire.Work
	err := c.retry(ctx, request{method: http.MethodGet, path: wire.PathWork, query: q, timeout: wait + callTimeout,
		answer: &w})
	c.renew(w)
	return w, err
}

// renew takes the token that an answer brought, if it did, for all calls to come.
func (c *client) renew(w wire.Work) {
	if w.Token != "" {
		c.token.Store(&w.Token)
	}
}

// logs sends a piece of an attempt's log. When the broker wants it from elsewhere, it returns a *resumeError.
func (c *client) logs(ctx context.Context, attempt string, offset int64, piece []byte) error {
	q := url.Values{"attempt": {attempt}, "offset": {strconv.FormatInt(offset, 10)}}
	return c.retry(ctx, request{
		method: http.MethodPost, path: wire.PathLogs, query: q, body: piece, contentType: "application/octet-stream",
		timeout: callTimeout,
	})
}

// resumeError says from which offset the broker wants a log.
type resumeError struct{ offset int64 }

func (e *resumeError) Error() string {
	return "agent: the log is wanted from " + strconv.FormatInt(e.offset, 10)
}

// retry makes a call until it is accepted, the broker has had the last word, or patience ends.
func (c *client) retry(ctx context.Context, r request) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	final := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := c.call(ctx, r)
		if final = lastWord(err); final {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(c.patience))
	if err != nil && !final && ctx.Err() == nil {
		err = fmt.Errorf("%w for %v: %w", ErrUnreachable, c.patience, err)
	}
	return err
}

// lastWord says whether asking again is of no use.
func lastWord(err error) bool {
	var resume *resumeError
	var denied *deniedError
	return errors.Is(err, ErrOver) || errors.Is(err, ErrRefused) || errors.Is(err, ErrConfig) ||
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
	err = judge(resp, r.path, body)
	if seconds, bad := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && r.pause != nil && bad == nil {
		*r.pause = min(time.Duration(max(seconds, 0))*time.Second, maxPause)
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

// judge makes an error of an answer that is no acceptance.
func judge(resp *http.Response, path string, answer []byte) error {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w: %s: %s", ErrRefused, path, resp.Status)
	case code == http.StatusGone:
		return fmt.Errorf("%w: %s", ErrOver, path)
	case code == http.StatusConflict && (path == wire.PathLogs || path == wire.PathReport):
		if offset, err := strconv.ParseInt(resp.Header.Get(wire.HeaderOffset), 10, 64); err == nil && offset >= 0 {
			return &resumeError{offset}
		}
	case strings.HasPrefix(path, wire.PathVisits):
		return judgeVisit(resp, path, answer)
	case code == http.StatusNotFound || code == http.StatusConflict || code == http.StatusUnprocessableEntity ||
		code == http.StatusNotImplemented:
		switch path {
		case wire.PathGrants, wire.PathList, wire.PathUploads, wire.PathPrune, wire.PathMounts:
			return denial(code, answer)
		}
	}
	return fmt.Errorf("agent: %s: %s: %.200q", path, resp.Status, answer)
}

// judgeVisit makes an error of an answer to a call of a visit.
func judgeVisit(resp *http.Response, path string, answer []byte) error {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusNotImplemented:
		return fmt.Errorf("agent: %s: %w", path, tunnel.ErrEnded)
	case http.StatusTooManyRequests:
		return tunnel.ErrBusy
	}
	return fmt.Errorf("agent: %s: %s: %.200q", path, resp.Status, answer)
}

package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// ErrUnreachable means that no broker answers at the URL. It wraps the cause.
var ErrUnreachable = errors.New("the broker does not answer")

// Limits of sizes and times.
const (
	callTimeout   = 60 * time.Second // of a call other than a stream; submitting a large file takes some seconds
	maxAnswer     = 256 << 20        // bytes; a job of 100,000 tasks with its attempts has about 60 MB
	maxProblem    = 1 << 20
	reconnectFor  = 30 * time.Second // how long to try to reopen a broken stream
	reconnectWait = 500 * time.Millisecond
)

// Client calls one broker. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
	retry time.Duration // pause between attempts to open a stream
	// firstPause is the pause before the first retry of a call.
	firstPause time.Duration
}

// New makes a client of the broker at base, which sends the user token.
func New(base, token string) *Client {
	return &Client{
		base: strings.TrimSuffix(base, "/"), token: token, retry: reconnectWait, firstPause: firstPause,
		http: &http.Client{
			// The API does not redirect, and the token must not be sent elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Submit submits a job file with its secrets. The name appears in messages. Its extension
// determines the format if the content does not. Calls with the same key submit one job. Without a
// key, each call makes one, so that its retries submit only one job. For an invalid file, the error
// is an *apitypes.Problem with File and Reason.
func (c *Client) Submit(
	ctx context.Context,
	name, key string,
	file []byte,
	secrets map[string]string,
) (*apitypes.Submitted,
	error) {
	return c.Update(ctx, "", name, key, file, secrets)
}

// Update changes the services of a job to those of a file, one replica after the other; see Submit.
func (c *Client) Update(ctx context.Context, job, name, key string, file []byte,
	secrets map[string]string) (*apitypes.Submitted, error) {
	q := url.Values{}
	if job != "" {
		q.Set("updates", job)
	}
	if name != "" {
		q.Set("name", name)
	}
	body, contentType := file, "application/octet-stream"
	if len(secrets) > 0 {
		var err error
		if body, contentType, err = withSecrets(file, secrets); err != nil {
			return nil, err
		}
	}
	var out apitypes.Submitted
	return &out, c.call(ctx, request{
		method: http.MethodPost, path: "/v1/dags", query: q, body: body, contentType: contentType,
		key: keyOrRandom(key),
	}, &out)
}

// keyOrRandom returns the key, or a random one if it is empty, so that retries of a call still make
// one job.
func keyOrRandom(key string) string { return cmp.Or(key, rand.Text()) }

// withSecrets returns a form with the secrets and the job file.
func withSecrets(file []byte, secrets map[string]string) (body []byte, contentType string, err error) {
	var buf bytes.Buffer
	form := multipart.NewWriter(&buf)
	values, err := json.Marshal(secrets)
	if err != nil {
		return nil, "", err
	}
	for _, part := range []struct {
		name  string
		value []byte
	}{{apitypes.FormSecrets, values}, {apitypes.FormFile, file}} {
		w, err := form.CreateFormField(part.name)
		if err == nil {
			_, err = w.Write(part.value)
		}
		if err != nil {
			return nil, "", err
		}
	}
	err = form.Close()
	return buf.Bytes(), form.FormDataContentType(), err
}

// Jobs lists up to limit jobs, the newest first.
func (c *Client) Jobs(ctx context.Context, limit int) (*apitypes.JobList, error) {
	return c.JobsAfter(ctx, "", limit)
}

// JobsAfter lists up to limit jobs that follow an earlier list. after is the Next of that list.
func (c *Client) JobsAfter(ctx context.Context, after string, limit int) (*apitypes.JobList, error) {
	var out apitypes.JobList
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		q.Set("after", after)
	}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/jobs", query: q}, &out)
}

// Job returns a job with its tasks, plans and attempts.
func (c *Client) Job(ctx context.Context, id string) (*apitypes.JobDetail, error) {
	out := apitypes.JobDetail{
		TaskList: []apitypes.TaskView{},
		Plans:    []apitypes.PlanHead{},
		Attempts: []apitypes.Attempt{},
	}
	return &out, parts(ctx, c, jobPath(id), func(p *apitypes.JobDetail) (next int) {
		out.JobView = p.JobView
		out.TaskList, out.Plans = append(out.TaskList, p.TaskList...), append(out.Plans, p.Plans...)
		out.Attempts, out.Services = append(out.Attempts, p.Attempts...), append(out.Services, p.Services...)
		return p.Next
	})
}

// Explain returns the history of a job, and why its tasks run where they do.
func (c *Client) Explain(ctx context.Context, id string) (*apitypes.Story, error) {
	out := apitypes.Story{Entries: []apitypes.Entry{}}
	defer out.Sort()
	return &out, parts(ctx, c, jobPath(id)+"/explain", func(p *apitypes.Story) (next int) {
		out.Job = p.Job
		out.Entries, out.Choices = append(out.Entries, p.Entries...), append(out.Choices, p.Choices...)
		return p.Next
	})
}

// parts requests a job page by page and passes each page to add, which returns where the next one begins, or 0 after
// the last.
func parts[T any](ctx context.Context, c *Client, path string, add func(*T) (next int)) error {
	for after := 0; ; {
		var part T
		q := url.Values{"limit": {strconv.Itoa(apitypes.PartTasks)}}
		if after > 0 {
			q.Set("after", strconv.Itoa(after))
		}
		if err := c.call(ctx, request{method: http.MethodGet, path: path, query: q}, &part); err != nil {
			return err
		}
		if after = add(&part); after == 0 {
			return nil
		}
	}
}

// Cancel cancels a job. It returns before the job has finished.
func (c *Client) Cancel(ctx context.Context, id, reason string) (*apitypes.JobView, error) {
	var out apitypes.JobView
	q := url.Values{}
	if reason != "" {
		q.Set("reason", reason)
	}
	return &out, c.call(ctx, request{method: http.MethodPost, path: jobPath(id) + "/cancel", query: q}, &out)
}

// Remove removes a finished job with its records, logs and outputs, and returns the job as it was before.
func (c *Client) Remove(ctx context.Context, id string) (*apitypes.JobView, error) {
	var out apitypes.JobView
	return &out, c.call(ctx, request{method: http.MethodPost, path: jobPath(id) + "/remove"}, &out)
}

// Queues lists the queues that were configured or used.
func (c *Client) Queues(ctx context.Context) (*apitypes.QueueList, error) {
	var out apitypes.QueueList
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/queues"}, &out)
}

// SetQueue creates a queue or changes its quota.
func (c *Client) SetQueue(ctx context.Context, name string, quota apitypes.QueueQuota) (*apitypes.Queue, error) {
	body, err := json.Marshal(quota)
	if err != nil {
		return nil, err
	}
	var out apitypes.Queue
	return &out, c.call(ctx, request{
		method: http.MethodPut, path: "/v1/queues/" + url.PathEscape(name), body: body, contentType: "application/json",
	}, &out)
}

// WhyWaiting returns why a job's tasks wait in their queue.
func (c *Client) WhyWaiting(ctx context.Context, id string) (*apitypes.Why, error) {
	var out apitypes.Why
	return &out, c.call(ctx, request{method: http.MethodGet, path: jobPath(id) + "/waiting"}, &out)
}

// Blocks lists the places that the broker does not try now.
func (c *Client) Blocks(ctx context.Context) (*apitypes.BlockList, error) {
	var out apitypes.BlockList
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/blocks"}, &out)
}

// Learned returns the run times of tasks that earlier jobs of the given name showed.
func (c *Client) Learned(ctx context.Context, job string) (*apitypes.History, error) {
	var out apitypes.History
	r := request{method: http.MethodGet, path: "/v1/learned", query: url.Values{"job": {job}}}
	return &out, c.call(ctx, r, &out)
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// request is one call of the API.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	contentType  string
	key          string // idempotency key
	last         string // ID of the last event, for a stream that is reopened
}

// call makes a call and decodes the response into out, unless it is nil. It retries temporary failures.
func (c *Client) call(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.callWithRetry(ctx, r, func() error { return c.callOnce(ctx, r, out) })
}

func (c *Client) callOnce(ctx context.Context, r request, out any) error {
	res, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.unreachable(ctx, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("malformed response to %s %s: %w", r.method, r.path, err)
	}
	return nil
}

// open makes a call and returns a response with a 2xx status. Otherwise the error is an *apitypes.Problem or wraps
// ErrUnreachable.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if _, _, bad := ReadEndpoint(c.base, ""); err != nil && bad != nil {
		return nil, bad
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.base, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("TE", "trailers") // the trailer by which a log that was cut off states where to continue
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close() //nolint:errcheck // read only
	err = problemOf(res)
	var refused *apitypes.Problem
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		// The API's own message is about an HTTP header, which users of the client do not set themselves.
		refused.Detail = c.unauthorized()
	}
	return nil, err
}

// unauthorized returns the message for a missing or wrong user token.
func (c *Client) unauthorized() string {
	what := "does not accept the user token"
	if c.token == "" {
		what = "needs a user token, and none is set"
	}
	return fmt.Sprintf("%s %s: set $%s to the content of the file %s in the broker's state folder", c.base, what,
		EnvToken, localfiles.TokenFile)
}

// unreachable returns ErrUnreachable with the cause, or the context's error if the caller cancelled.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL's query
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, err)
}

// problemOf reads an error response. A response that is not a problem document is not the broker's, and is quoted.
func problemOf(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	var p apitypes.Problem
	if err == nil && json.Unmarshal(body, &p) == nil && p.Status != 0 {
		return &p
	}
	text := fmt.Sprintf("the response is not a broker's: %s: %.200q", res.Status, body)
	return &foreign{status: res.StatusCode, text: text}
}

// foreign is an error response that the API did not send, for example a gateway's.
type foreign struct {
	status int
	text   string
}

// Error implements error.
func (f *foreign) Error() string { return f.text }

// statusOf returns the HTTP status of an error response of the broker or of another server, or 0.
func statusOf(err error) int {
	var f *foreign
	if errors.As(err, &f) {
		return f.status
	}
	return Status(err)
}

// Status returns the HTTP status of an *apitypes.Problem in err's chain, or 0.
func Status(err error) int {
	var p *apitypes.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

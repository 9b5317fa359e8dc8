package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/tunnel"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Visiting names the machine that a user wants to reach through a tunnel, and the purpose.
type Visiting struct {
	Kind    tunnel.Kind `json:"kind"`
	Rank    int         `json:"rank,omitempty"`
	Command []string    `json:"command,omitempty"`
	Port    int         `json:"port,omitempty"`
}

// Visit is an open visit. It implements the calls of a [tunnel.Conn].
type Visit struct {
	apitypes.Visited
	client *Client
}

// OpenVisit opens a visit on a machine of a running task.
func (c *Client) OpenVisit(ctx context.Context, job, task string, v Visiting) (*Visit, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := &Visit{client: c}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Not retried: each call opens another visit.
	err = c.callOnce(ctx, request{method: http.MethodPost, path: jobPath(job) + "/tasks/" + url.PathEscape(task) +
		"/visits", body: body, contentType: "application/json"}, &out.Visited)
	return out, err
}

func (v *Visit) path() string {
	return jobPath(v.Job) + "/visits/" + url.PathEscape(v.Attempt) + "/" + strconv.Itoa(v.Visit)
}

// Send implements tunnel.Calls.
func (v *Visit) Send(ctx context.Context, offset int64, piece []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := v.client.open(ctx, request{method: http.MethodPost, path: v.path() + "/person", body: piece,
		query: url.Values{"offset": {strconv.FormatInt(offset, 10)}}, contentType: "application/octet-stream"})
	if err != nil {
		return visitError(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Body.Close()
}

// Receive implements tunnel.Calls.
func (v *Visit) Receive(ctx context.Context, offset int64, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	res, err := v.client.open(ctx, request{method: http.MethodGet, path: v.path() + "/machine",
		query: url.Values{"offset": {strconv.FormatInt(offset, 10)}, "wait": {wait.String()}}})
	if err != nil {
		return nil, visitError(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
}

// End ends the visit.
func (v *Visit) End(ctx context.Context) error {
	return v.client.call(ctx, request{method: http.MethodPost, path: v.path() + "/end"}, nil)
}

// visitError marks the errors that end a visit.
func visitError(err error) error {
	switch status := statusOf(err); {
	case status == http.StatusTooManyRequests:
		return tunnel.ErrBusy
	case status >= 400 && status < 500:
		return &endedError{err}
	}
	return err
}

// endedError is an error after which the visit cannot be used again.
type endedError struct{ error }

// Unwrap returns the original error.
func (o *endedError) Unwrap() error { return o.error }

// Is makes it match tunnel.ErrEnded.
func (o *endedError) Is(target error) bool { return target == tunnel.ErrEnded }
